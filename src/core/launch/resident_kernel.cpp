#include "core/launch/resident_kernel.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "base/mutant.h"

namespace gpucoll::core {
namespace {

constexpr int kCloseCalls = 3;
constexpr uint32_t kMostSkipped = 4096;

}  // namespace

// A kernel that a device has stopped running does not leave; its memory is in no danger then.
ResidentKernel::~ResidentKernel() {
  if (accepted_)
    log::write(log::Level::info, "%llu small collectives took no launch, as a kernel had stayed for them",
               static_cast<unsigned long long>(accepted_));
  if (!present()) return;
  dismiss(last_ + 1);
  const auto end = Clock::now() + 2 * bound_ + std::chrono::seconds(1);
  while (present() && Clock::now() < end) proto::pause();
}

void ResidentKernel::stayed_in_vain() noexcept {
  to_skip_ = penalty_;
  penalty_ = std::min(2 * penalty_, kMostSkipped);
}

void ResidentKernel::call_begins(Clock::time_point now) noexcept {
  close_calls_ = now - ended_ <= bound_ ? close_calls_ + 1 : 0;
  if (to_skip_) --to_skip_;
  if (!first_ || dismissed_ || present()) return;
  first_ = 0;
  stayed_in_vain();
}

void ResidentKernel::call_ends(Clock::time_point now) noexcept {
  ended_ = now;
  if (!std::exchange(posted_, false)) return;
  ++accepted_;
  penalty_ = 1;
}

uint32_t ResidentKernel::stay_ns() const noexcept {
  const bool pays = close_calls_ >= kCloseCalls && to_skip_ == 0;
  return pays ? static_cast<uint32_t>(bound_.count()) : 0;
}

void ResidentKernel::stays(const PlannedLaunch& launch, uint64_t number) noexcept {
  kernel_ = launch.kernel;
  threads_ = launch.threads;
  blocks_ = launch.blocks();
  first_ = last_ = number;
  dismissed_ = false;
}

void ResidentKernel::store(const proto::CollectiveItem& item, uint64_t number) noexcept {
#pragma GCC unroll 16
  for (uint32_t w = 0; w < proto::kDoorbellWords; ++w) {
    uint32_t data;
    std::memcpy(&data, reinterpret_cast<const char*>(&item) + w * sizeof data, sizeof data);
    __atomic_store_n(&doorbell_.word[w], proto::doorbell_word(data, number),
                     __ATOMIC_RELEASE);  // partner: look_at_doorbell()
  }
}

void ResidentKernel::post(const PlannedLaunch& launch, uint64_t number) noexcept {
  posted_ = true;
  last_ = number;
  store(launch.plan.own_items()->collective, number);
}

bool ResidentKernel::missed() noexcept {
  // In this order: it may have heard, and left after that.
  if (!posted_ || present() || gc_mutant(305) || __atomic_load_n(&doorbell_.left, __ATOMIC_ACQUIRE) >= last_)
    return false;
  posted_ = false;
  return true;
}

void ResidentKernel::dismiss(uint64_t number) noexcept {
  if (dismissed_ || !present()) return;
  proto::CollectiveItem leave = {};
  leave.function = proto::kLeave;
  store(leave, number);
  dismissed_ = true;
  if (first_ == last_) stayed_in_vain();
}

}  // namespace gpucoll::core
