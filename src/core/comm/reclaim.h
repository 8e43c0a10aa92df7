// Communicators that are finished here while peers may still write into their memory: kept until the peers have closed
// too, so that destroying a communicator never waits long for another rank (one thread may destroy several in a row).
//
// Thread safety: any thread.
#pragma once
#include <cstdint>
#include <memory>

#include "core/comm/communicator.h"

namespace gpucoll::core {

// Takes a communicator after finish(). Destroys it, and earlier ones, once their peers have closed, no graph has
// launches of it, here or at a peer, and nothing of the process is under way (quiescence.h): at this call (waiting at
// most patience_ms), at a later one, or by the proxy. At the process's exit the proxy begins nothing more, and the
// peers of the rest are waited for, bounded.
void reclaim(std::unique_ptr<Communicator> communicator, int64_t patience_ms);
// Destroys those; waits for the others at most patience_ms, calling idle() meanwhile, and who has waited for what is
// under way as long destroys beside it. True if none is left, in another thread's hands neither. Who waits at all waits
// no longer than a second for a failed communicator whose launches do not begin, and does not count it as left.
bool drain_reclaimed(int64_t patience_ms, void (*idle)());

}  // namespace gpucoll::core
