// The host's side of a kernel that stays after its operation for the next ones (proto/format/bell.h): for programs that
// call small collectives in close succession, and wait for each. Who rings pays no launch.
//
// A kernel stays only when the last calls have followed each other within its bound. One that has stayed in vain, since
// the program went on to something else, costs that a wait for the whole device, if it makes one, so from then on it
// stays less and less often.
//
// Thread safety: one caller at a time. Ownership: the bell outlives it, and the kernel that uses it: the destructor
// waits for that, as long as it may stay.
#pragma once
#include <chrono>
#include <cstdint>

#include "core/planner.h"
#include "proto/format/bell.h"

namespace gpucoll::core {

class Lingering {
 public:
  using Clock = std::chrono::steady_clock;

  // bound: how long a kernel stays; 0: never.
  Lingering(proto::Bell& bell, std::chrono::nanoseconds bound) : bell_(bell), bound_(bound) {}
  ~Lingering();
  Lingering(const Lingering&) = delete;
  Lingering& operator=(const Lingering&) = delete;

  // Whether a kernel can run such a launch when it is rung, or stay after it.
  static bool suits(const PlannedLaunch& launch) noexcept;
  // A call that its caller waits for begins, and has ended.
  void call_begins(Clock::time_point now) noexcept;
  void call_ends(Clock::time_point now) noexcept;

  // For how long the kernel of such a launch had better stay.
  uint32_t stay_ns() const noexcept;
  // It has been launched so, as launch `number`.
  void stays(const PlannedLaunch& launch, uint64_t number) noexcept;

  // Whether the kernel that has stayed, if it is still there, can run it: with as many blocks, as those of one that
  // another rank launches may be those that take part there.
  bool takes(const PlannedLaunch& launch) const noexcept;
  void ring(const PlannedLaunch& launch, uint64_t number) noexcept;
  // Whether nobody has heard that, as the kernel had left: true once, then it must be launched.
  bool missed() noexcept;
  // Lets it leave, so that launch `number` need not wait for it.
  void dismiss(uint64_t number) noexcept;

  // Launches that were rung in, and heard.
  uint64_t heard() const noexcept { return heard_; }

 private:
  bool present() const noexcept;
  void stayed_in_vain() noexcept;
  void store(const proto::CollectiveItem& item, uint64_t number) noexcept;

  proto::Bell& bell_;
  const std::chrono::nanoseconds bound_;
  // The kernel that stayed last.
  const gpu::Kernel* kernel_ = nullptr;
  int threads_ = 0, blocks_ = 0;
  uint64_t first_ = 0, last_ = 0;  // its own launch, and the last one that it was rung for
  bool dismissed_ = false;
  bool rung_ = false;  // and not known to be heard
  uint64_t heard_ = 0;

  Clock::time_point ended_ = {};
  int close_calls_ = 0;                 // in a row
  uint32_t to_skip_ = 0, penalty_ = 1;  // calls after which none stays
};

}  // namespace gpucoll::core
