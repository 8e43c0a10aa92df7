// Counts what this process has run on devices. Thread safety: any thread.
#pragma once
#include <atomic>
#include <cstdint>

namespace gpucoll::coll {

class RunCounts {
 public:
  // Return how many collectives of MPI, and local reductions, have run on a device, and how many launches these took.
  static uint64_t runs() noexcept { return runs_.load(std::memory_order_relaxed); }
  static uint64_t launches() noexcept { return launches_.load(std::memory_order_relaxed); }
  static void count_run() noexcept { runs_.fetch_add(1, std::memory_order_relaxed); }
  static void count_launches(uint64_t more) noexcept { launches_.fetch_add(more, std::memory_order_relaxed); }

 private:
  static inline std::atomic<uint64_t> runs_{0}, launches_{0};
};

}  // namespace gpucoll::coll
