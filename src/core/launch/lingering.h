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

#include "core/plan/planner.h"
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

  // Returns whether a kernel can run such a launch when it is rung, or stay after it.
  static bool suits(const PlannedLaunch& launch) noexcept;
  // Tell that a call whose caller waits for it begins, and that it has ended.
  void call_begins(Clock::time_point now) noexcept;
  void call_ends(Clock::time_point now) noexcept;

  // Returns for how long the kernel of such a launch had better stay.
  uint32_t stay_ns() const noexcept;
  // Notes that it has been launched to stay, as launch `number`.
  void stays(const PlannedLaunch& launch, uint64_t number) noexcept;

  // Returns whether the kernel that has stayed, if it is still there, can run the launch. It must have as many blocks:
  // another rank may launch a kernel for the call, and the blocks of that kernel take part there.
  bool takes(const PlannedLaunch& launch) const noexcept;
  void ring(const PlannedLaunch& launch, uint64_t number) noexcept;
  // Returns whether nobody has heard the ring, since the kernel had left. It returns true once; then the caller must
  // launch.
  bool missed() noexcept;
  // Lets the kernel leave, so that launch `number` need not wait for it.
  void dismiss(uint64_t number) noexcept;

  // Returns how many launches were rung in and heard.
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
  bool rung_ = false;  // rung, and not known to be heard
  uint64_t heard_ = 0;

  Clock::time_point ended_ = {};
  int close_calls_ = 0;                 // in a row
  uint32_t to_skip_ = 0, penalty_ = 1;  // calls after which none stays
};

}  // namespace gpucoll::core
