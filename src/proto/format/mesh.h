// Format: the mesh, memory for operations in which every rank stores straight into the memory of every other.
//
// Each rank has one mesh buffer in its device memory, into which all ranks store and from which only the owner reads:
//
//   line[channel][parity][source rank][kMeshLines]      (kMeshChannels channels, parity 0 and 1)
//
// A line is 16 bytes: two LL words, each 4 bytes of data and 4 bytes of flag, stored and loaded as one atomic of 8 bytes.
// A word has arrived when its flag is that of the operation. Nothing else orders data: no counter, no barrier.
//
// Flags count the communicator's mesh operations (1, 2, ...; equal on all ranks; 0 is left out when they wrap, being
// what fresh memory holds), and parity = flag & 1. Why two halves are enough: a block that stores operation f + 2
// into a half has received operation f + 1 from every rank, so every rank's same block has finished operation f and no
// longer reads that half. This holds block by block, which is why each channel has lines of its own.
// A stale flag could be mistaken only 2^32 - 1 operations later, after its line was written anew.
#pragma once
#include <cstddef>
#include <cstdint>

namespace gpucoll::proto {

inline constexpr int kMeshChannels = 16;
inline constexpr int kMeshLines = 4096;          // of one source on one channel: 32 KiB of data
inline constexpr size_t kMeshLineBytes = 16;
inline constexpr size_t kMeshLineData = 8;       // bytes of data in a line
inline constexpr size_t kMeshChannelData = kMeshLines * kMeshLineData;  // most data of a rank on one channel
inline constexpr int kMeshMaxRanks = 16;         // more ranks use the ring

constexpr size_t mesh_bytes(int n_ranks) {
  return size_t{kMeshChannels} * 2 * static_cast<size_t>(n_ranks) * kMeshLines * kMeshLineBytes;
}
// Byte offset of the lines that `source` stores on a channel.
constexpr size_t mesh_offset(int n_ranks, int channel, uint32_t flag, int source) {
  return ((static_cast<size_t>(channel) * 2 + (flag & 1)) * static_cast<size_t>(n_ranks) +
          static_cast<size_t>(source)) *
         (size_t{kMeshLines} * kMeshLineBytes);
}

}  // namespace gpucoll::proto
