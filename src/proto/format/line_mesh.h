// Format: the line mesh, memory in which every rank stores lines of LL128 for every other (kernels/all_pairs.h).
//
// Each rank has one buffer in its device memory, into which all ranks store and from which only the owner reads:
//
//   area[channel][step % kLineAreas][source rank], kLineAreaBytes of lines each (kMaxChannels channels)
//
// An operation takes steps; in a step each rank stores into one area of every other. Each channel counts its steps, the
// same on all ranks (LineMeshEnds); a line has arrived when its flag is flag_of(step) (format/connection.h). Nothing
// else orders data: no counter, no barrier.
//
// Warp w of a block moves the units w, w + warps, ... of every area (ll128.h), and in each step at least unit w, if of
// nothing: so each warp hears in every step from the same warp of every rank. Before it stores step s it has
// (1) within an operation, received step s - 2 or a later one from every rank, and every rank sends a step only when it
// has read step s' - 2 of its own; (2) at the beginning of one, met its block, all of which had received all steps
// before. Either way all ranks have read step s - kLineAreas, which is what lay there.
#pragma once
#include <cstddef>
#include <cstdint>

#include "proto/format/connection.h"
#include "proto/format/mesh.h"

namespace gpucoll::proto {

inline constexpr int kLineAreas = 4;
inline constexpr size_t kLineAreaBytes = size_t{64} << 10;

constexpr size_t line_mesh_bytes(int n_ranks) {
  return size_t{kMaxChannels} * kLineAreas * static_cast<size_t>(n_ranks) * kLineAreaBytes;
}
// Byte offset of the area into which `source` stores a step.
constexpr GC_HD size_t line_area_offset(uint32_t n_ranks, uint32_t channel, uint64_t step, uint32_t source) {
  return ((size_t{channel} * kLineAreas + step % kLineAreas) * n_ranks + source) * kLineAreaBytes;
}

// A channel's part of it, in device memory.
struct alignas(16) LineMeshEnds {
  uint64_t step;  // how many this rank has taken; kernels write it
  uint8_t reserved[8];
  uint8_t* lines[kMeshMaxRanks];  // each rank's buffer
};

}  // namespace gpucoll::proto
