// Format: what two ranks tell each other about messages that a copy engine moves. It follows the messages on a rank's
// page (format/peer.h): a CopyPage, then a CopyLane towards each rank. Rank R's lane towards P holds what R says to P.
//
// Messages between two ranks are counted in each direction, apart from those in graphs: all of them (a message's
// ordinal), and those that go by copy engine (its number k). Both ranks decide from a message's bytes alone, so the
// k-th of one is the k-th of the other; where sizes differ, bytes or ordinals do, and one of the two sees it.
//
// For message k from S to R:
//   R       fills descriptor k % kCopyRing of its lane towards S, then posted = k with release. Descriptor k -
//   kCopyRing
//           is not needed any more then: recv_done >= k - kCopyRing
//   R, S    their streams store recv_ready = k, send_ready = k (in their own lanes) when the buffers may be used
//   S       has seen posted and both ready words (acquire) and copies; the copy's stream then stores recv_done = k in
//   R's
//           lane and send_done = k in its own, for which the streams of R and S wait
// Where R's buffer cannot be opened by others, the descriptor names a bounce buffer of kBouncePieces pieces instead,
// used in turn for all such messages from S to R: piece p (counted through all of them) lies in piece p %
// kBouncePieces.
//   S       copies piece p when taken > p - kBouncePieces (of R's lane, acquire); the copy's stream stores moved = p +
//   1,
//           and send_done = k after the last one
//   R       copies it on when moved > p (of S's lane, acquire); the copy's stream stores taken = p + 1, and recv_done =
//   k
//           after the last one. S begins no message without pieces before that.
// S stores started = k before the copy (of the first piece), and does not copy if R has failed before that.
// A rank that gives up stores kCopyReleased in its own done words, once no copy to or from its buffers is under way: S
// knows its own; R waits for recv_done >= started where S writes into its buffer, unless S is dead.
// send_bytes and recv_bytes: the sizes of the last kSizeRing messages, for reports.
// send_copies and recv_copies are stored before send_messages and recv_messages (release): who sees that the other side
// has come to an ordinal sees as well how many of the messages so far it moves by copy.
//
// Large reductions (core/copy_engine/copy_reduction.h) go in rounds, counted through all of them: in each, a rank may
// put one piece into the next one's landing memory, where both know that it belongs. Words of the receiver's and the
// sender's lanes towards each other, only ever stored by the other side's streams:
//   landed    in R's lane towards S: how many rounds' pieces from S have come, as far as S had any
//   consumed  in S's lane towards R: of how many rounds R has used what came
// `calls` is what a rank has called last, by its number, for the others to compare: number is 0 while it is changed.
// `reduced` counts groups as `passed` does.
//
// `live`: serial numbers of the allocations in the slots that descriptors name; 0 for none. A peer that has an
// allocation open under another serial closes it.
#pragma once
#include <cstddef>
#include <cstdint>

namespace gpucoll::proto {

inline constexpr uint32_t kCopyRing = 16;
inline constexpr uint32_t kSizeRing = 16;
inline constexpr uint32_t kExportSlots = 256;
inline constexpr uint32_t kBounceSlot = kExportSlots - 1;  // never another; its serial stays 1
inline constexpr uint32_t kBouncePieces = 4;
// Large reductions whose calls a rank remembers.
inline constexpr uint32_t kCallRing = 64;
// Far from any number, and larger than those by the signed difference as well.
inline constexpr uint64_t kCopyReleased = uint64_t{1} << 62;

struct alignas(64) CopyDescriptor {
  uint64_t bytes;
  uint64_t ordinal;
  uint64_t offset;  // of the buffer in its allocation
  uint32_t slot, serial;
  uint64_t piece_bytes;  // of the bounce buffer; 0 where there is none
  uint8_t handle[112];   // gpu::MemoryHandle
  uint8_t reserved[40];
};
static_assert(sizeof(CopyDescriptor) == 192);

struct alignas(64) CopyLane {
  uint64_t posted;
  uint64_t send_copies, recv_copies;
  uint64_t send_messages, recv_messages;
  uint64_t started;
  alignas(64) uint64_t send_ready;
  alignas(64) uint64_t recv_ready;
  alignas(64) uint64_t send_done;
  alignas(64) uint64_t recv_done;
  alignas(64) uint64_t moved;
  alignas(64) uint64_t taken;
  alignas(64) uint64_t landed;
  alignas(64) uint64_t consumed;
  alignas(64) uint64_t send_bytes[kSizeRing];
  uint64_t recv_bytes[kSizeRing];
  CopyDescriptor descriptors[kCopyRing];
};
static_assert(sizeof(CopyLane) == 576 + 2 * kSizeRing * 8 + kCopyRing * 192);

// The large reductions of one group.
struct LargeCall {
  uint64_t number;
  uint64_t bytes;  // that are reduced, together
  uint64_t what;   // a hash of functions, counts, types, operations and roots
  uint64_t reserved;
};
static_assert(sizeof(LargeCall) == 32);

struct alignas(64) CopyPage {
  uint64_t passed;  // this rank's own: how many groups' streams have seen their messages done
  uint64_t reduced;
  uint32_t kept_out;  // 1 while this rank's host can start no copy, as another thread's cudaFree keeps it out
  alignas(64) uint32_t live[kExportSlots];
  LargeCall calls[kCallRing];
};
static_assert(sizeof(CopyPage) == 64 + kExportSlots * 4 + kCallRing * 32);

// The fields, (structure, field, offset, bytes): asserted here, and compared by a test with docs/formats/copy.md.
#define GC_COPY_FIELDS(F)               \
  F(CopyPage, passed, 0, 8)             \
  F(CopyPage, reduced, 8, 8)            \
  F(CopyPage, kept_out, 16, 4)          \
  F(CopyPage, live, 64, 1024)           \
  F(CopyPage, calls, 1088, 2048)        \
  F(CopyLane, posted, 0, 8)             \
  F(CopyLane, send_copies, 8, 8)        \
  F(CopyLane, recv_copies, 16, 8)       \
  F(CopyLane, send_messages, 24, 8)     \
  F(CopyLane, recv_messages, 32, 8)     \
  F(CopyLane, started, 40, 8)           \
  F(CopyLane, send_ready, 64, 8)        \
  F(CopyLane, recv_ready, 128, 8)       \
  F(CopyLane, send_done, 192, 8)        \
  F(CopyLane, recv_done, 256, 8)        \
  F(CopyLane, moved, 320, 8)            \
  F(CopyLane, taken, 384, 8)            \
  F(CopyLane, landed, 448, 8)           \
  F(CopyLane, consumed, 512, 8)         \
  F(CopyLane, send_bytes, 576, 128)     \
  F(CopyLane, recv_bytes, 704, 128)     \
  F(CopyLane, descriptors, 832, 3072)   \
  F(LargeCall, number, 0, 8)            \
  F(LargeCall, bytes, 8, 8)             \
  F(LargeCall, what, 16, 8)             \
  F(LargeCall, reserved, 24, 8)         \
  F(CopyDescriptor, bytes, 0, 8)        \
  F(CopyDescriptor, ordinal, 8, 8)      \
  F(CopyDescriptor, offset, 16, 8)      \
  F(CopyDescriptor, slot, 24, 4)        \
  F(CopyDescriptor, serial, 28, 4)      \
  F(CopyDescriptor, piece_bytes, 32, 8) \
  F(CopyDescriptor, handle, 40, 112)    \
  F(CopyDescriptor, reserved, 152, 40)
#define GC_ASSERT_FIELD(structure, field, offset, bytes) \
  static_assert(offsetof(structure, field) == offset && sizeof(structure::field) == bytes);
GC_COPY_FIELDS(GC_ASSERT_FIELD)
#undef GC_ASSERT_FIELD

}  // namespace gpucoll::proto
