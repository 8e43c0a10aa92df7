// Tells since when no launch of a communicator has ended while some were outstanding.
//
// Thread safety: one caller at a time, the watchdog.
#pragma once
#include <chrono>
#include <cstdint>

#include "core/peer/heart.h"

namespace gpucoll::core {

class Stall {
 public:
  // Takes how many launches have ended and been made. Returns whether it goes on: nothing has ended since the last
  // look, though some are outstanding.
  bool goes_on(uint64_t done, uint64_t launched) noexcept {
    if (done < launched && done == done_ && since_ != RunningClock::time_point()) return true;
    done_ = done;
    since_ = done < launched ? RunningClock::now() : RunningClock::time_point();
    began_ = std::chrono::steady_clock::now();
    is_told_ = false;
    return false;
  }
  // Returns for how many seconds this process has run meanwhile. REQUIRES: it goes on.
  long long seconds() const {
    return std::chrono::duration_cast<std::chrono::seconds>(RunningClock::now() - since_).count();
  }
  // Returns its begin by the clock by which pauses are told.
  std::chrono::steady_clock::time_point began() const noexcept { return began_; }
  bool is_told() const noexcept { return is_told_; }
  void tell() noexcept { is_told_ = true; }

 private:
  uint64_t done_ = 0;
  RunningClock::time_point since_ = {};
  std::chrono::steady_clock::time_point began_ = {};
  bool is_told_ = false;
};

}  // namespace gpucoll::core
