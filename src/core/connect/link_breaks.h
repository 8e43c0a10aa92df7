// Decides whether a connection that is broken counts: one look late, as the page of its peer may say a little later
// that the peer has failed or closed. Over verbs nobody tells that it ends in order. What peers that are closing have
// sent is on its way, or here, and launches may still be taking it: there a break counts once launches have stood still
// for 2 s.
//
// Thread safety: one caller at a time, about ten times a second.
#pragma once
#include <chrono>
#include <cstdint>
#include <utility>

#include "base/mutant.h"
#include "core/peer/heart.h"

namespace gpucoll::core {

class LinkBreaks {
 public:
  // Forgets what was seen: a look finds all connections well, or none of them counts.
  void none() noexcept { seen_ = waits_ = false; }
  // Returns whether the break that a look finds counts. certain: as Links::check tells. launches: how many have been
  // made, and how many have ended. The process may be stopped for a while, which `now` does not count.
  bool counts(bool certain, uint64_t launches, RunningClock::time_point now) noexcept {
    if (!certain && !is_over(launches, now)) return seen_ = false;
    return std::exchange(seen_, true);
  }

 private:
  static constexpr std::chrono::seconds kGrace{2};
  bool is_over(uint64_t launches, RunningClock::time_point now) noexcept {
    const bool moved = std::exchange(launches_, launches) != launches && !gc_mutant(499);
    if (!std::exchange(waits_, true) || moved) since_ = now;
    return now - since_ >= kGrace;
  }

  bool seen_ = false;   // a break that counts, by the look before
  bool waits_ = false;  // for launches, since since_, when they were launches_
  uint64_t launches_ = 0;
  RunningClock::time_point since_ = {};
};

}  // namespace gpucoll::core
