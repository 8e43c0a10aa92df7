// The host's side of a kernel that stays after its operation for the next ones (proto/format/doorbell.h): for programs
// that call small collectives in close succession, and wait for each. Who posts pays no launch.
//
// A kernel stays only when the last calls have followed each other within its bound. One that has stayed in vain, since
// the program went on to something else, costs that a wait for the whole device, if it makes one, so from then on it
// stays less and less often.
//
// Thread safety: one caller at a time. Ownership: the doorbell outlives it, and the kernel that uses it: the destructor
// waits for that, as long as it may stay.
#pragma once
#include <chrono>
#include <cstdint>

#include "core/plan/planner.h"
#include "proto/format/doorbell.h"

namespace gpucoll::core {

class ResidentKernel {
 public:
  using Clock = std::chrono::steady_clock;

  // bound: how long a kernel stays; 0: never.
  ResidentKernel(proto::Doorbell& doorbell, std::chrono::nanoseconds bound) : doorbell_(doorbell), bound_(bound) {}
  ~ResidentKernel();
  ResidentKernel(const ResidentKernel&) = delete;
  ResidentKernel& operator=(const ResidentKernel&) = delete;

  // Returns whether a kernel can run such a launch when it is posted, or stay after it.
  static bool suits(const PlannedLaunch& launch) noexcept {
    const proto::Plan& plan = launch.plan;
    return launch.stage == Stage::run && launch.overflow.empty() && !plan.results_on_host && plan.n_batches == 1 &&
           plan.n_items == 1 && plan.batch(0).algorithm == Algorithm::one_shot;
  }
  // Tell that a call whose caller waits for it begins, and that it has ended.
  void call_begins(Clock::time_point now) noexcept;
  void call_ends(Clock::time_point now) noexcept;

  // Returns for how long the kernel of such a launch had better stay.
  uint32_t stay_ns() const noexcept;
  // Notes that it has been launched to stay, as launch `number`.
  void stays(const PlannedLaunch& launch, uint64_t number) noexcept;

  // Returns whether the kernel that has stayed, if it is still there, can run the launch. It must have as many blocks:
  // another rank may launch a kernel for the call, and the blocks of that kernel take part there.
  bool takes(const PlannedLaunch& launch) const noexcept {
    return !dismissed_ && launch.kernel == kernel_ && launch.blocks() == blocks_ && launch.threads <= threads_ &&
           present();
  }
  void post(const PlannedLaunch& launch, uint64_t number) noexcept;
  // Returns whether nobody has accepted what was posted, since the kernel had left. It returns true once; then the
  // caller must launch.
  bool missed() noexcept;
  // Lets the kernel leave, so that launch `number` need not wait for it.
  void dismiss(uint64_t number) noexcept;

  // Returns whether the kernel that has stayed last is there, or is still to begin.
  bool present() const noexcept {
    // Acquire: partner is the kernel's release as it leaves.
    return first_ != 0 && __atomic_load_n(&doorbell_.left, __ATOMIC_ACQUIRE) < first_;
  }
  // Returns how many blocks it has.
  int blocks() const noexcept { return blocks_; }
  // Returns how many launches were posted and accepted.
  uint64_t accepted() const noexcept { return accepted_; }

 private:
  void stayed_in_vain() noexcept;
  void store(const proto::CollectiveItem& item, uint64_t number) noexcept;

  proto::Doorbell& doorbell_;
  const std::chrono::nanoseconds bound_;
  // The kernel that stayed last.
  const gpu::Kernel* kernel_ = nullptr;
  int threads_ = 0, blocks_ = 0;
  uint64_t first_ = 0, last_ = 0;  // its own launch, and the last one that was posted for it
  bool dismissed_ = false;
  bool posted_ = false;  // posted, and not known to be accepted
  uint64_t accepted_ = 0;

  Clock::time_point ended_ = {};
  int close_calls_ = 0;                 // in a row
  uint32_t to_skip_ = 0, penalty_ = 1;  // calls after which none stays
};

}  // namespace gpucoll::core
