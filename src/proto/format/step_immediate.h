// Format: how the steps of connections travel over verbs (net/verbs). Both ends have a ReceiveBlock and a SendBlock for
// each lane (format/connection.h) in memory of their own node, and the hosts bring them up to date with the 32 bits of
// immediate data that a message carries:
//   data   from the sending end, an RDMA write with immediate: the slice that begins behind step `step`, of 1, 2, 4 or
//   8
//          steps. It goes into the slot in which it lies on the sending side. Its bytes are the completion's
//   head   from the receiving end, a send with immediate: `step` steps have been drained
//   trial  the first message of each end
// A message of send and receive begins with a Note. Before the slice, the sending end writes the note into the
// receiving end's `notes[lane][step % kSteps]`, behind all blocks; there a note stays until the next one of that step.
//
// Both ends know the upper bits of `step`: no two steps that are under way are further apart than kSteps.
#pragma once
#include <cstdint>

#include "proto/format/connection.h"

namespace gpucoll::proto {

inline constexpr int kDataStepBits = 25, kHeadStepBits = 27;
inline constexpr uint32_t kTrialImmediate = 0x67635676;

// lane:5, the binary logarithm of the steps:2, step:25
constexpr uint32_t data_immediate(int lane, uint64_t step, uint32_t record) {
  return static_cast<uint32_t>(lane) << 27 | (record & 3) << kDataStepBits |
         (static_cast<uint32_t>(step) & ((1u << kDataStepBits) - 1));
}
// lane:5, step:27
constexpr uint32_t head_immediate(int lane, uint64_t step) {
  return static_cast<uint32_t>(lane) << 27 | (static_cast<uint32_t>(step) & ((1u << kHeadStepBits) - 1));
}
constexpr int lane_of(uint32_t immediate) { return static_cast<int>(immediate >> 27); }
// The record of a slice of so many bytes.
constexpr uint32_t record_of(uint32_t data, uint32_t bytes) { return bytes << 2 | (data >> kDataStepBits & 3); }
// The step that has these lower bits, and is `last` or the next such one behind it.
constexpr uint64_t step_of(uint32_t immediate, int bits, uint64_t last) {
  const uint64_t mask = (uint64_t{1} << bits) - 1;
  return last + ((immediate - last) & mask);
}

static_assert(kMaxChannels <= 32);
static_assert(step_of(3, kDataStepBits, (uint64_t{1} << kDataStepBits) - 1) == (uint64_t{1} << kDataStepBits) + 3);

}  // namespace gpucoll::proto
