// Reads and writes the records of calls on a page (proto/format/calls.h).
// Thread safety: one writer of a page; any number of readers beside it.
#pragma once
#include <algorithm>
#include <optional>
#include <vector>

#include "proto/format/calls.h"

namespace gpucoll::core {

// Writes the record of a call, as the last one. Whoever reads the number before and after it has read the rest has read
// what belongs to it.
inline void write_record(proto::CallsPage& page, const proto::CallRecord& value) {
  proto::CallRecord& record = page.records[value.number % proto::kCallRecords];
  __atomic_store_n(&record.number, uint64_t{0}, __ATOMIC_RELAXED);
  __atomic_thread_fence(__ATOMIC_RELEASE);
  __atomic_store_n(&record.hash, value.hash, __ATOMIC_RELAXED);
  __atomic_store_n(&record.count, value.count, __ATOMIC_RELAXED);
  __atomic_store_n(&record.what, value.what, __ATOMIC_RELAXED);
  __atomic_store_n(&record.number, value.number, __ATOMIC_RELEASE);
  __atomic_store_n(&page.last, value.number, __ATOMIC_RELEASE);  // partner: last_call()
}

inline uint64_t last_call(const proto::CallsPage& page) { return __atomic_load_n(&page.last, __ATOMIC_ACQUIRE); }

// Returns the record of a call; none where it is not there yet, or no more.
inline std::optional<proto::CallRecord> read_record(const proto::CallsPage& page, uint64_t number) {
  const proto::CallRecord& record = page.records[number % proto::kCallRecords];
  if (__atomic_load_n(&record.number, __ATOMIC_ACQUIRE) != number) return {};
  const proto::CallRecord copy = {number, __atomic_load_n(&record.hash, __ATOMIC_RELAXED),
                                  __atomic_load_n(&record.count, __ATOMIC_RELAXED),
                                  __atomic_load_n(&record.what, __ATOMIC_RELAXED)};
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  if (__atomic_load_n(&record.number, __ATOMIC_RELAXED) != number) return {};
  return copy;
}

// Puts the records behind call `after`, as far as they are still there, into *records; returns the number of the last
// call.
inline uint64_t read_records(const proto::CallsPage& page, uint64_t after, std::vector<proto::CallRecord>* records) {
  records->clear();
  const uint64_t last = last_call(page);
  const uint64_t oldest = last > proto::kCallRecords ? last - proto::kCallRecords : 0;
  for (uint64_t number = std::max(after, oldest) + 1; number <= last; ++number)
    if (const auto record = read_record(page, number)) records->push_back(*record);
  return last;
}

}  // namespace gpucoll::core
