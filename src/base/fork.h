// Tells whether this process is the child, by fork(), of one that has used the library. A child has its parent's
// memory, but none of its threads and no device: what it calls could wait for ever, and what it freed or wrote into
// shared memory would be missing in its parent.
//
// Thread safety: any thread.
#pragma once
#include <atomic>

namespace gpucoll {

namespace detail {
extern std::atomic<bool> forked_child;
}

// From now on a child that this process forks is a forked child. REQUIRES, of whoever starts threads, opens a device,
// or shows memory to other processes: it calls this before.
void claim_process() noexcept;

inline bool is_forked_child() noexcept { return detail::forked_child.load(std::memory_order_relaxed); }

}  // namespace gpucoll
