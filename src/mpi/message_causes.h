// Tells why messages do not go the fast way (base/observe/causes.h): in the log once for each communicator and cause.
//
// Thread safety: any thread; nothing waits.
#pragma once
#include "base/observe/causes.h"

namespace gpucoll::coll {

// context: tells communicators apart; a communicator that gets the context of one that has been freed is told of no
// more than that. comm: its name, or null where only the context is known.
// Without a detail it takes what note_detail() has kept.
void tell_slow_message(uint64_t context, const char* comm, Cause cause, const char* detail = "") noexcept;

// Keeps what this rank knows besides of the next message that its thread tells of with this cause: who finds it out may
// hold locks, and does not know the communicator.
void note_detail(Cause cause, const char* detail) noexcept;

}  // namespace gpucoll::coll
