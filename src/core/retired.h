// Communicators that are finished here while peers may still write into their memory: kept until the peers have closed
// too, so that destroying a communicator never waits long for another rank (one thread may destroy several in a row).
//
// Thread safety: any thread.
#pragma once
#include <cstdint>
#include <memory>

#include "core/communicator.h"

namespace gpucoll::core {

// Takes a communicator after finish(). Destroys it, and earlier ones, as soon as their peers have closed: at this
// call (waiting at most patience_ms), or at a later one. At the process's exit the rest is waited for, bounded.
void retire(std::unique_ptr<Communicator> communicator, int64_t patience_ms);
// Destroys those whose peers have closed; waits for the others at most patience_ms, calling idle() meanwhile.
// True if none is left.
bool drain_retired(int64_t patience_ms, void (*idle)());

}  // namespace gpucoll::core
