// Format: what ranks tell each other in an operation that works on their buffers directly (kernels/zero_copy.h).
//
// Each rank has notes from every other, for each channel, behind the lines of its mesh buffer (format/mesh.h):
//
//   note[channel][opening % 2][source rank]      (kMaxChannels channels)
//
// Each channel counts these operations, equally on all ranks (ChannelComm::openings); every word holds flag_of() the
// count. An operation begins with an opening: each rank stores into its note at every other rank where that rank's
// kernels find its buffers, and what it calls. A word carries 4 bytes of that and the flag, so that it tells of its own
// arrival. Where ranks call different reductions, no rank may touch another's buffers: they are shorter, or not open. A
// rank that has stored its notes has come so far in its stream: its buffers may be read and overwritten. The operation
// ends with a closing: `closed` tells that the rank has read all it wanted of the other's buffers, and that what it
// stored there has come (release, acquire). Only then may the kernel end. Where not every rank's addresses are known,
// the operation goes on in another way, without a closing. Two notes are enough: a rank that stores opening k + 2 has
// received opening k + 1 from every rank, each of which had read all notes of opening k, and of its closing, before.
#pragma once
#include <cstddef>
#include <cstdint>

#include "proto/format/connection.h"
#include "proto/format/mesh.h"
#include "proto/format/plan.h"

namespace gpucoll::proto {

struct alignas(64) ZeroCopyNote {
  WordPair send, recv;  // addresses: the lower and the upper half of each, above both the flag
  WordPair call;        // call_word(); its highest bit: the addresses are known
  uint64_t closed;      // the flag
  uint64_t reserved;
};
static_assert(sizeof(ZeroCopyNote) == 64);
// The fields, (structure, field, offset, bytes): asserted here, and compared by a test with docs/formats/zero_copy.md.
#define GC_ZERO_COPY_FIELDS(F)   \
  F(ZeroCopyNote, send, 0, 16)   \
  F(ZeroCopyNote, recv, 16, 16)  \
  F(ZeroCopyNote, call, 32, 16)  \
  F(ZeroCopyNote, closed, 48, 8) \
  F(ZeroCopyNote, reserved, 56, 8)
#define GC_ASSERT_FIELD(structure, field, offset, bytes) \
  static_assert(offsetof(structure, field) == offset && sizeof(structure::field) == bytes);
GC_ZERO_COPY_FIELDS(GC_ASSERT_FIELD)
#undef GC_ASSERT_FIELD
inline constexpr uint64_t kAddressesKnown = uint64_t{1} << 63;

// Packs what must be equal on all ranks, but for the operation, which does no harm. element: bytes of one element.
inline constexpr int kCallBits = 48;  // of the elements' number
static_assert(kFunctions <= 1 << 4 && kZeroCopyRanks <= 1 << 3);
constexpr GC_HD uint64_t call_word(uint64_t count, Function function, uint32_t root, uint32_t element) {
  const uint64_t kind = static_cast<uint64_t>(function) | (function == Function::reduce ? root : 0) << 4 | element << 7;
  return count | kind << kCallBits;
}
constexpr GC_HD uint64_t count_of_call(uint64_t word) { return word & ((uint64_t{1} << kCallBits) - 1); }

constexpr GC_HD size_t zero_copy_offset(int n_ranks, uint32_t channel, uint64_t opening, int source) {
  return mesh_line_bytes(n_ranks) +
         ((size_t{channel} * 2 + opening % 2) * static_cast<size_t>(n_ranks) + static_cast<size_t>(source)) *
             sizeof(ZeroCopyNote);
}
constexpr size_t mesh_bytes(int n_ranks) { return zero_copy_offset(n_ranks, kMaxChannels, 0, 0); }

}  // namespace gpucoll::proto
