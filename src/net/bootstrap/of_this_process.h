// An object of which each process has its own, a forked child as well: in the child, the state of the parent's makes no
// sense where another thread has just held its mutex. Thread safety: any thread.
#pragma once
#include <unistd.h>

#include <atomic>

namespace gpucoll::net {

// Returns this process's T, made at the first call. It is never destroyed, as threads may use it while statics are torn
// down.
template <class T>
T& of_this_process() {
  struct Own {
    pid_t pid;
    T object;
  };
  static std::atomic<Own*> current{nullptr};
  Own* own = current.load(std::memory_order_acquire);
  while (!own || own->pid != getpid()) {
    Own* const fresh = new Own{getpid(), {}};
    if (current.compare_exchange_strong(own, fresh)) return fresh->object;
    delete fresh;
  }
  return own->object;
}

}  // namespace gpucoll::net
