// Format: what a rank has called, for the others to compare. It follows the direct lanes on a rank's page
// (format/peer.h): a CallsPage, written by that rank only.
//
// Collective calls of a communicator are numbered 1, 2, ..., those in captures left out. Record k lies in
// records[k % kCallRecords]: the writer stores number 0, the rest, number k (release), then last = k (release). Who
// reads k there before (acquire) and after it has read the rest has read what belongs together. A record's hash is of
// this call and of all before it: where two ranks' are equal, their calls are, so far.
#pragma once
#include <cstddef>
#include <cstdint>

namespace gpucoll::proto {

inline constexpr uint32_t kCallRecords = 256;

struct alignas(32) CallRecord {
  uint64_t number;
  uint64_t hash;
  uint64_t count;  // of elements, as the program gives it
  uint64_t what;   // function, type, operation and root (core/peer/call_records.h)
};
static_assert(sizeof(CallRecord) == 32);

struct alignas(64) CallsPage {
  uint64_t last;
  uint8_t reserved[56];
  CallRecord records[kCallRecords];
};
static_assert(sizeof(CallsPage) == 64 + kCallRecords * 32);

}  // namespace gpucoll::proto
