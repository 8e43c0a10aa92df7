// Decides how long a rank that closes in order waits until the peers' systems have taken its data and its marks. A peer
// that is stopped takes nothing, for ever perhaps, and one that is slow may take long.
//
// Thread safety: one caller at a time.
#pragma once
#include <chrono>
#include <cstddef>
#include <ctime>
#include <utility>

#include "core/peer/heart.h"

namespace gpucoll::core {

class EndWait {
 public:
  explicit EndWait(RunningClock::time_point now) noexcept : begin_(now), since_(now) {}
  // left: how many bytes are not taken. failed: the communicator has a fault, so that its end is no orderly one.
  bool goes_on(size_t left, bool failed, RunningClock::time_point now) noexcept {
    if (left == 0 || failed) return false;
    if (std::exchange(left_, left) != left) since_ = now;
    return now - since_ <= kPatience && now - begin_ <= kWhole;
  }

 private:
  static constexpr std::chrono::seconds kPatience{2}, kWhole{10};
  const RunningClock::time_point begin_;
  RunningClock::time_point since_;  // when left_ has changed
  size_t left_ = 0;
};

// Looks until are_taken() says that nothing is waited for any more. Looks cost system calls for each socket.
template <class AreTaken>
void await_ends(const AreTaken& are_taken) {
  const auto begin = RunningClock::now();
  while (!are_taken()) {
    const bool soon = RunningClock::now() - begin < std::chrono::milliseconds(1);
    const timespec nap = {0, soon ? 20'000 : 200'000};
    nanosleep(&nap, nullptr);
  }
}

}  // namespace gpucoll::core
