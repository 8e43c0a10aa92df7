// Format: how the steps of connections travel over verbs (net/verbs). Both ends have a ReceiveBlock and a SendBlock for
// each lane (format/connection.h) in memory of their own node, and the hosts bring them up to date with the 32 bits of
// immediate data that a message carries:
//   data      from the sending end, an RDMA write with immediate: the slice that begins behind step `step`, of 1, 2, 4
//             or 8 steps. It goes into the slot in which it lies on the sending side. Its bytes are the completion's
//   head      from the receiving end: `step` steps have been drained
//   goes on   from the receiving end: it has given up the devices `rails`, and its lane goes on over the one by which
//             this comes, behind step `step`
//   given up  from the sending end: it has given up the devices `rails`
//   trial     the first message of each end
// All but data are sends with immediate. `rails` has a bit for each of the connection's devices.
//
// A message of send and receive begins with a Note. Before the slice, the sending end writes the note into the
// receiving end's `notes[lane][step % kSteps]`, behind all blocks; there a note stays until the next one of that step.
//
// Both ends know the upper bits of `step`: no two steps that are under way are further apart than kSteps.
#pragma once
#include <cstdint>

#include "proto/format/connection.h"

namespace gpucoll::proto {

inline constexpr int kDataStepBits = 25, kHeadStepBits = 25, kGoesOnStepBits = 21;
inline constexpr int kMostRails = 4;  // devices of a connection
inline constexpr uint32_t kTrialImmediate = 0x67635676;
// The receiving end sends these.
enum class Notice : uint32_t { head, goes_on };

namespace detail {
constexpr uint32_t lower_bits(uint64_t step, int bits) { return static_cast<uint32_t>(step) & ((1u << bits) - 1); }
constexpr uint32_t of_lane(int lane, uint32_t kind) { return static_cast<uint32_t>(lane) << 27 | kind << 25; }
}  // namespace detail

// lane:5, the binary logarithm of the steps:2, step:25
constexpr uint32_t data_immediate(int lane, uint64_t step, uint32_t record) {
  return detail::of_lane(lane, record & 3) | detail::lower_bits(step, kDataStepBits);
}
// lane:5, Notice::head:2, step:25
constexpr uint32_t head_immediate(int lane, uint64_t step) {
  return detail::of_lane(lane, static_cast<uint32_t>(Notice::head)) | detail::lower_bits(step, kHeadStepBits);
}
// lane:5, Notice::goes_on:2, rails:4, step:21
constexpr uint32_t goes_on_immediate(int lane, uint32_t rails, uint64_t step) {
  return detail::of_lane(lane, static_cast<uint32_t>(Notice::goes_on)) | rails << kGoesOnStepBits |
         detail::lower_bits(step, kGoesOnStepBits);
}
// 0:28, rails:4
constexpr uint32_t given_up_immediate(uint32_t rails) { return rails; }
constexpr Notice notice_of(uint32_t immediate) { return static_cast<Notice>(immediate >> 25 & 3); }
constexpr uint32_t rails_that_go(uint32_t immediate) { return immediate >> kGoesOnStepBits & 15; }
constexpr int lane_of(uint32_t immediate) { return static_cast<int>(immediate >> 27); }
// The record of a slice of so many bytes.
constexpr uint32_t record_of(uint32_t data, uint32_t bytes) { return bytes << 2 | (data >> kDataStepBits & 3); }
// The step that has these lower bits, and is `last` or the next such one behind it.
constexpr uint64_t step_of(uint32_t immediate, int bits, uint64_t last) {
  const uint64_t mask = (uint64_t{1} << bits) - 1;
  return last + ((immediate - last) & mask);
}

static_assert(kMaxChannels <= 32);
static_assert(kMostRails + kGoesOnStepBits <= 25);
static_assert(step_of(3, kDataStepBits, (uint64_t{1} << kDataStepBits) - 1) == (uint64_t{1} << kDataStepBits) + 3);

}  // namespace gpucoll::proto
