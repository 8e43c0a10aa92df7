// Format: the mesh, memory for operations in which every rank stores straight into the memory of every other, if only
// that it has nothing for it.
//
// Each rank has one mesh buffer in its device memory, into which all ranks store and from which only the owner reads:
//
//   line[channel][parity][source rank][kMeshLines]      (kMeshChannels channels, parity 0 and 1)
//
// A line is 16 bytes: two LL words, each 4 bytes of data and 4 bytes of flag, stored and loaded as one atomic of 8
// bytes. Pack p (16 bytes) of a rank's share travels in lines p and p + kMeshLines / 2: neighbouring threads,
// neighbouring lines. A word has arrived when its flag is that of the operation. Nothing else orders data: no counter,
// no barrier.
//
// Flags count the communicator's mesh operations in the order in which they run, on the device (LaunchCounters in
// format/plan.h): 1, 2, ...; equal on all ranks; when they wrap, 0, which is what fresh memory holds, is left out, and
// 1 with it, so that parities still alternate. parity = flag & 1. Why two halves are enough: a block that stores
// operation f + 2 into a half has received operation f + 1 from every rank, so every rank's same block has finished
// operation f and no longer reads that half. This holds block by block, which is why each channel has lines of its own.
// It needs (1) a barrier of the block between two operations, and (2) that all blocks of a launch take part in all of
// its operations: one without a share exchanges packs of nothing, as do ranks that have no data for each other. Between
// launches the end of a launch is the barrier of all blocks, and channel 0 takes part in every operation. A stale flag
// could be mistaken only where the same line next carries data exactly 2^32 - 2 operations later.
//
// A mesh over a network has one channel, kNetworkMeshLines lines of a source, and lies in host memory. A rank has,
// beside its own buffer, an image of the buffer of each other rank. Its kernels store lines into the image, and the
// hosts bring them from there into the buffer (net/mesh_lines.h). Ranks of one node have no images of each other's
// buffers: their kernels store into the buffers themselves. Behind the lines of an image lie two posts, one for
// each parity. Thread 0 stores a post with each operation: the operation's flag, and how many packs there are for that
// rank. A post says what to expect, not that it is there: that the lines' flags tell. An image is free for operation f
// + 2, as a buffer is: every rank has received operation f then, so all of it has been sent.
#pragma once
#include <cstddef>
#include <cstdint>

#include "proto/platform.h"

namespace gpucoll::proto {

inline constexpr int kMeshChannels = 16;
inline constexpr int kMeshLines = 8192;  // of one source on one channel: 64 KiB of data
inline constexpr size_t kMeshLineBytes = 16;
inline constexpr size_t kMeshLineData = 8;                              // bytes of data in a line
inline constexpr size_t kMeshChannelData = kMeshLines * kMeshLineData;  // most data of a rank on one channel
inline constexpr int kMeshMaxRanks = 16;                                // more ranks use the ring

// The flag of the operation after the one of flag `flag`.
constexpr GC_HD uint32_t next_mesh_flag(uint32_t flag) { return flag == UINT32_MAX ? 2 : flag + 1; }

inline constexpr int kNetworkMeshLines = 2048;
inline constexpr int kNetworkMeshPacks = kNetworkMeshLines / 2;
inline constexpr size_t kNetworkMeshData = kNetworkMeshLines * kMeshLineData;
inline constexpr size_t kMeshPostBytes = 128;  // of an image: both posts, in lines of their own

// Behind the lines lie the notes of zero-copy operations (format/zero_copy.h).
constexpr GC_HD size_t mesh_line_bytes(int n_ranks) {
  return size_t{kMeshChannels} * 2 * static_cast<size_t>(n_ranks) * kMeshLines * kMeshLineBytes;
}
// Byte offset of the lines that `source` stores on a channel. lines: of one source.
constexpr GC_HD size_t mesh_offset(int n_ranks, int channel, uint32_t flag, int source, uint32_t lines = kMeshLines) {
  return ((static_cast<size_t>(channel) * 2 + (flag & 1)) * static_cast<size_t>(n_ranks) +
          static_cast<size_t>(source)) *
         (lines * kMeshLineBytes);
}

// Byte offset, in an image, of the post of an operation.
constexpr GC_HD size_t mesh_post_offset(int n_ranks, uint32_t flag) {
  return mesh_offset(n_ranks, 1, 0, 0, kNetworkMeshLines) + (flag & 1) * sizeof(uint64_t);
}
constexpr size_t network_mesh_bytes(int n_ranks) { return mesh_post_offset(n_ranks, 0) + kMeshPostBytes; }
constexpr GC_HD uint64_t mesh_post(uint32_t flag, uint32_t packs) { return uint64_t{packs} << 32 | flag; }

}  // namespace gpucoll::proto
