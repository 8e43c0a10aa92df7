#include "base/fork.h"

#include <pthread.h>

#include "base/mutant.h"

namespace gpucoll {

std::atomic<bool> detail::forked_child{false};

void claim_process() noexcept {
  static const int registered =
      pthread_atfork(nullptr, nullptr, [] { detail::forked_child.store(!gc_mutant(150), std::memory_order_relaxed); });
  (void)registered;
}

}  // namespace gpucoll
