// Tells whether processes run, which a rank that waits for others asks: a stopped process is not dead, but it does not
// come either. The watchdog of each beats; the pulse shows it to others (proto/format/pulse.h).
//
// Thread safety: any thread, but beat() and rest() by one at a time.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>

#include "base/status.h"
#include "proto/format/pulse.h"

namespace gpucoll::core {

class Heart {
 public:
  // Longer than a beat comes late by itself, shorter than any timeout.
  static constexpr std::chrono::nanoseconds kLongPause = std::chrono::milliseconds(500);

  // The heart of this process, which beats from its first beat() to rest().
  static void beat() noexcept;
  static void rest() noexcept;
  // Stores this process's pulse where others see it.
  static void show(gc_pulse* pulse) noexcept;

  // How long this process has waited since `start`, but for its last pause: whoever was stopped blames nobody for it.
  static std::chrono::nanoseconds waited(std::chrono::steady_clock::time_point start) noexcept;

  // How long the process of a pulse has not run: until now, or in a pause that ended after `since`. 0: it runs, or its
  // heart does not beat.
  static std::chrono::nanoseconds silence(const gc_pulse& pulse, std::chrono::steady_clock::time_point since) noexcept;
};

// A clock that stands still while this process is stopped, but for the first half second: how long it has waited for
// others is measured by it, as whoever was stopped may blame nobody for the time. As steady_clock where the heart does
// not beat.
struct RunningClock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<RunningClock>;
  static constexpr bool is_steady = true;
  static time_point now() noexcept { return at(std::chrono::steady_clock::now()); }
  // REQUIRES: it is about now.
  static time_point at(std::chrono::steady_clock::time_point now) noexcept;
};

// Returns what a rank that has waited too long says where it finds that another process does not run, or has not for a
// good part of the time; ok where so short a pause explains nothing.
Status stopped(const std::string& who, std::chrono::nanoseconds silence, int rank, long long waited_s);

}  // namespace gpucoll::core
