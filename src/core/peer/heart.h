// Tells a rank that waits for others whether their processes run: a stopped process is not dead, but it does not come
// either. The watchdog of each process beats; the pulse shows it to others (proto/format/pulse.h).
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
  // Longer than the delay of a beat in a process that runs, and shorter than any timeout.
  static constexpr std::chrono::nanoseconds kLongPause = std::chrono::milliseconds(500);

  // Let the heart of this process beat; it beats from the first beat() to rest().
  static void beat() noexcept;
  static void rest() noexcept;
  // Writes this process's pulse to where others see it from now on.
  static void show(gc_pulse* pulse) noexcept;

  // Returns how long this process has waited since `start`, without its last pause: a rank that was stopped blames
  // nobody for that time.
  static std::chrono::nanoseconds waited(std::chrono::steady_clock::time_point start) noexcept;

  // Returns how long the process of a pulse has not run, until now or in a pause that ended after `since`. 0: it runs,
  // or its heart does not beat.
  static std::chrono::nanoseconds silence(const gc_pulse& pulse, std::chrono::steady_clock::time_point since) noexcept;
};

// A clock that stands still while this process is stopped, but for the first half second. Ranks measure by it how long
// they have waited for others, as a rank that was stopped may blame nobody for that time. It is steady_clock where the
// heart does not beat.
struct RunningClock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<RunningClock>;
  static constexpr bool is_steady = true;
  static time_point now() noexcept { return at(std::chrono::steady_clock::now()); }
  // REQUIRES: `now` is about the time of the call.
  static time_point at(std::chrono::steady_clock::time_point now) noexcept;
};

// Returns what a rank that has waited too long says where it finds that another process does not run, or did not for a
// good part of the time; ok where so short a pause explains nothing.
// is_remote: the process is on another node, and may be out of reach instead.
Status stopped(const std::string& who, std::chrono::nanoseconds silence, int rank, long long waited_s,
               bool is_remote = false);

}  // namespace gpucoll::core
