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
  // Returns how long to sleep between two looks, which cost system calls for each socket.
  timespec nap(RunningClock::time_point now) const noexcept {
    return {0, now - begin_ < std::chrono::milliseconds(1) ? 20'000 : 200'000};
  }

 private:
  static constexpr std::chrono::seconds kPatience{2}, kWhole{10};
  const RunningClock::time_point begin_;
  RunningClock::time_point since_;  // when left_ has changed
  size_t left_ = 0;
};

}  // namespace gpucoll::core
