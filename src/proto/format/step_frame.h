// Format: how the steps of connections travel over a socket (net/tcp). Both ends have a ReceiveBlock and a SendBlock
// for each lane (format/connection.h) in memory of their own node, and the hosts bring them up to date:
//   kData  from the sending end: the slice that begins behind step `step`; slice_bytes(record) bytes of data follow,
//          then the receiving end has tail beyond the slice. With it goes the note of a message that begins there
//   kPacks from the sending end of a mesh (format/mesh.h): all that the rank has for the other one in the operation of
//          flag `step`; `record` packs follow. Nothing comes back, as the operations themselves keep step
//   kHead  from the receiving end: `step` steps have been drained
//   kEnd   from either end, the last frame over a socket: its rank has closed the communicator in order. `step` is the
//          number of messages that this rank has sent to the other one, or received from it, by links of this kind in
//          this direction; kUnknownMessages where graphs may have moved more. A socket that ends without it is broken
// A sender's slot is free again once the receiver's is, so data are sent from the slots themselves.
#pragma once
#include <cstdint>

#include "proto/format/connection.h"

namespace gpucoll::proto {

inline constexpr uint32_t kStepMagic = 0x67635376;  // the last digit is the version

enum class StepKind : uint16_t { kData = 1, kHead = 2, kEnd = 3, kPacks = 4 };
inline constexpr uint64_t kUnknownMessages = ~uint64_t{0};

struct StepFrame {
  uint32_t magic;
  StepKind kind;
  uint16_t lane;
  uint64_t step;
  uint32_t record;  // kData: of ReceiveBlock's sizes; kPacks: their number
  uint32_t reserved[3];
  Note note;  // kData
};
static_assert(sizeof(StepFrame) == 48);

// Returns how many bytes of data follow a frame.
inline uint64_t data_bytes(const StepFrame& frame) {
  if (frame.kind == StepKind::kPacks) return uint64_t{frame.record} * sizeof(Pack);
  return frame.kind == StepKind::kData ? slice_bytes(frame.record) : 0;
}

}  // namespace gpucoll::proto
