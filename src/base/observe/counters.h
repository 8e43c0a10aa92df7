// Counts what this process does, for MPI_T. Each counter is one word that only grows.
//
// Thread safety: any thread.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace gpucoll {

enum class Counter : size_t {
#define GC_COUNTER(name, help) name,
#include "base/observe/counters.def"
#undef GC_COUNTER
};

namespace detail {
#define GC_COUNTER(name, help) +1
inline constexpr size_t kCounters = 0
#include "base/observe/counters.def"
    ;
#undef GC_COUNTER
alignas(64) inline std::atomic<uint64_t> counters[kCounters];
}  // namespace detail

inline void count(Counter counter, uint64_t by = 1) noexcept {
  detail::counters[static_cast<size_t>(counter)].fetch_add(by, std::memory_order_relaxed);
}

struct CounterInfo {
  const char *name, *help;
};
// Returns null past the last counter.
inline const CounterInfo* counter_info(size_t index) noexcept {
#define GC_COUNTER(name, help) {#name, help},
  static constexpr CounterInfo kInfos[] = {
#include "base/observe/counters.def"
  };
#undef GC_COUNTER
  return index < detail::kCounters ? &kInfos[index] : nullptr;
}
// REQUIRES: counter_info(index) is not null.
inline uint64_t counter_value(size_t index) noexcept { return detail::counters[index].load(std::memory_order_relaxed); }

}  // namespace gpucoll
