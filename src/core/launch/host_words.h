// The words that a communicator's kernels and its host share: the fault latch, how many launches have ended, how far
// launches of graphs have come, and the doorbell of a kernel that stays. Kernels that tell of their end seldom
// (proto/format/plan.h) have an event behind them.
//
// Thread safety: any thread, after allocate(). Ownership: owns the memory; the device outlives it. Destroy it when the
// kernels have ended.
#pragma once
#include <atomic>
#include <cstdint>

#include "base/mutant.h"
#include "gpu/device.h"
#include "proto/format/doorbell.h"
#include "proto/format/plan.h"

namespace gpucoll::core {

// Returns how many launches of graphs have begun and not ended, as their kernels tell.
inline uint32_t running_launches(const proto::GraphWords& graphs) noexcept {
  const uint64_t ended = __atomic_load_n(&graphs.ended, __ATOMIC_ACQUIRE);
  const auto running = static_cast<int32_t>(__atomic_load_n(&graphs.begun, __ATOMIC_RELAXED) - ended);
  return running > 0 ? static_cast<uint32_t>(running) : 0;
}

class HostWords {
 public:
  struct Words {
    proto::FaultLatch latch;
    alignas(64) uint64_t done;
    proto::Doorbell doorbell;
    proto::GraphWords in_graphs;
  };
  explicit HostWords(gpu::Device& device) : device_(device) {}
  ~HostWords() {
    if (block_.host) device_.release_host(block_);
  }
  HostWords(const HostWords&) = delete;
  HostWords& operator=(const HostWords&) = delete;

  // Once, before all that follows. Errors: no memory.
  Status allocate() {
    GC_TRY_AS(block_, device_.allocate_host(sizeof(Words)));
    return {};
  }
  // Returns whether there are any.
  explicit operator bool() const noexcept { return block_.host != nullptr; }
  Words* operator->() const noexcept { return static_cast<Words*>(block_.host); }
  // Returns their kernel address.
  Words* in_kernels() const noexcept { return static_cast<Words*>(block_.kernel); }

  // Returns how many launches outside of graphs have ended.
  uint64_t done() const noexcept {
    // Acquire: partner is the release of the done word by the kernel's last block.
    const uint64_t told = __atomic_load_n(&(*this)->done, __ATOMIC_ACQUIRE);
    const uint64_t behind = behind_.load(std::memory_order_acquire);  // before the look at the event
    if (told >= behind || gc_mutant(622)) return told;
    const auto reached = device_.reached(event_);
    return reached && *reached ? behind : told;
  }
  // Says that the event, always the same one, has been recorded behind so many launches. null and 0: there is none any
  // more. One caller at a time.
  void end_is_behind(gpu::Event event, uint64_t launches) noexcept {
    if (event) event_ = event;
    behind_.store(launches, std::memory_order_release);  // partner: done()
  }
  // Return the number of the last graph launch that has begun, of the last one that has ended, and how many have begun
  // and not ended.
  uint64_t begun_in_graphs() const noexcept { return __atomic_load_n(&(*this)->in_graphs.begun, __ATOMIC_RELAXED); }
  uint64_t ended_in_graphs() const noexcept { return __atomic_load_n(&(*this)->in_graphs.ended, __ATOMIC_ACQUIRE); }
  uint32_t running_in_graphs() const noexcept { return running_launches((*this)->in_graphs); }
  // Returns whether a kernel has set the latch by itself.
  // Acquire: partner is the release of kind by the kernel, after the rest.
  bool has_report() const noexcept { return __atomic_load_n(&(*this)->latch.kind, __ATOMIC_ACQUIRE) != 0; }

 private:
  gpu::Device& device_;
  gpu::HostBlock block_;
  gpu::Event event_ = nullptr;
  std::atomic<uint64_t> behind_{0};  // launches that have ended once the event is reached
};

}  // namespace gpucoll::core
