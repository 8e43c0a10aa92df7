// Page-locked host memory in slots: device memory goes to pageable memory through them, piece by piece. So the copies
// of the copy engine run beside those of the processor, which is the slower one, and no memory of the program's is
// locked.
//
// Thread safety: any thread. Ownership: lives until the process ends; a slot is its taker's until put().
#pragma once
#include <algorithm>
#include <mutex>
#include <vector>

#include "core/progress/quiescence.h"
#include "gpu/device.h"

namespace gpucoll::pt2pt {

class HostSlots {
 public:
  // The slots of all stay in a processor's cache.
  static constexpr size_t kSlots = 8, kMostBytes = size_t{256} << 10;
  // From so many bytes on slots pay; below, the driver does the same.
  static constexpr size_t kLeastMessage = size_t{128} << 10;
  // Returns how many bytes of a message go through a slot at a time.
  static size_t piece_of(size_t message) {
    constexpr size_t kUnit = size_t{64} << 10;
    return std::min(kMostBytes, (message / 4 + kUnit - 1) / kUnit * kUnit);
  }

  explicit HostSlots(gpu::Device& device) : device_(device) {}
  // Returns whether there are slots. Makes them when they are first wanted, once nothing is in flight: the driver may
  // wait for the device.
  bool are_there() {
    std::lock_guard lock(mutex_);
    if (memory_.host || failed_) return memory_.host;
    core::Quiescence::instance().run_if_idle([this] { make(); });
    return memory_.host;
  }
  // Returns a free one; null: none is.
  uint8_t* take() {
    std::lock_guard lock(mutex_);
    if (free_.empty()) return nullptr;
    uint8_t* const slot = free_.back();
    free_.pop_back();
    return slot;
  }
  void put(uint8_t* slot) {
    std::lock_guard lock(mutex_);
    free_.push_back(slot);
  }

 private:
  void make() {
    auto made = device_.allocate_host(kSlots * kMostBytes);
    failed_ = !made;
    if (!made) return;
    memory_ = *made;
    for (size_t i = 0; i < kSlots; ++i) free_.push_back(static_cast<uint8_t*>(memory_.host) + i * kMostBytes);
  }

  gpu::Device& device_;
  std::mutex mutex_;
  gpu::HostBlock memory_ = {};
  bool failed_ = false;
  std::vector<uint8_t*> free_;
};

}  // namespace gpucoll::pt2pt
