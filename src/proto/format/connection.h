// Format: the memory of one connection (one channel, one direction, one pair of ranks), shared by two devices.
//
// A connection is a ring buffer of kSteps steps with two step counters that only grow:
//
//   tail  in the receiver's memory; written by the sender: how many steps have been filled
//   head  in the sender's memory;   written by the receiver: how many steps have been drained
//
// Each step has one slot for each protocol (Simple, LL, LL128); an operation uses those of its protocol. The counters
// are common: operations of any protocols follow each other on one connection.
//
// Ordering, Simple. The sender writes the data of a step, then stores tail with release at system scope; the receiver
// loads tail with acquire before it reads the data. The receiver reads the data, then stores head, behind these reads;
// the sender loads head before it writes into the same slot again. Each counter has one writer.
// The sender may fill step s when s - head < kSteps; the receiver may read step s when tail > s.
// Ordering, LL and LL128. Flags in the slot's lines tell of the data (flag_of(step), proto/ll.h, proto/ll128.h); the
// sender does not store tail, the receiver does not load it; head works as in Simple. The next Simple operation
// stores tail as an absolute number, which counts the steps between.
// Counters are 64 bits wide and never wrap in practice; the code compares differences only, so that a wrap
// (tests start them just below it) does no harm.
//
// Notes, for messages of send and receive only. A message whose first step is s has its note in note[s % kSteps]: its
// bytes in all channels, in two halves, each in a word with flag_of(s): as in LL, a word tells of its own arrival, so
// that nothing need be ordered, and nobody waits for a release. A receiver that finds both words (when it looks at the
// latch, or after the data of the step) compares the bytes with what it was told to receive, whatever protocol either
// side uses; so sizes that do not match are found, not waited for. s is the number of steps that both ends had used
// before, before any rounding. LL and LL128 messages carry their bytes in a first pack of data as well.
//
// Sizes, in Simple only. A slice that begins behind step s (both ends had used s steps before it, before any rounding)
// has its record in sizes[s % kSteps]: slice_record() of its bytes and its steps. The sender stores it before tail.
// Only a transport that moves the slots by itself reads it (net/tcp): from the step that it knows it finds the next
// slice, up to the tail.
//
// Direct stores, in Simple only: a receiver may grant its output to the sender, which then stores the data of a step
// there instead of into the step's slots. The steps, tail and head stay as they are. The receiver resets direct_from to
// the step before the operation's first one and stores the grant, its step last, with release; a sender that finds the
// step of the operation there (acquire) may go over to direct stores at the start of any slice: it stores that slice's
// step as direct_from before its tail (release), and keeps to it for the rest of the operation. A receiver looks at
// direct_from once the tail has come. So each side decides for itself: who grants need not be taken at its word, and
// who finds no grant, or one for another number of bytes, uses the slots.
//
// Placement. Each rank waits on memory of its own and writes into the peer's: polling stays off the link.
// Over the shared-memory transport all of it lies in host memory that both map.
#pragma once
#include <cstddef>
#include <cstdint>

#include "proto/platform.h"

namespace gpucoll::proto {

inline constexpr int kSteps = 8;
inline constexpr int kMaxChannels = 32;

struct alignas(128) StepCounter {
  uint64_t value;
  uint8_t pad[120];
};
static_assert(sizeof(StepCounter) == 128);

// The upper half of either word: the flag.
struct alignas(16) Note {
  uint64_t low;   // 32 bits of the bytes
  uint64_t high;  // the other 32
};
struct alignas(128) StepNotes {
  Note note[kSteps];
};
static_assert(sizeof(StepNotes) == 128);

// By the receiver, for one operation.
struct Grant {
  uint64_t address;  // of the output, in the sender's kernels; 0: none
  uint64_t bytes;    // of the output: of a message, or of the collective's
  uint64_t step;     // both ends had used so many before the operation
};

// Bytes of one step's slot, for each protocol: multiples of 128. In the LL slot, half of it is data, in the LL128 slot
// 120 of each 128 bytes.
struct ConnectionShape {
  uint32_t simple, ll, ll128;
};

// The record of a slice of 1, 2, 4 or 8 steps.
constexpr GC_HD uint32_t slice_record(uint64_t bytes, int steps) {
  const uint32_t log = steps == 1 ? 0 : steps == 2 ? 1 : steps == 4 ? 2 : 3;
  return static_cast<uint32_t>(bytes) << 2 | log;
}
constexpr GC_HD uint64_t slice_bytes(uint32_t record) { return record >> 2; }
constexpr GC_HD uint64_t slice_steps(uint32_t record) { return uint64_t{1} << (record & 3); }
// The first step of a slice that begins behind step `used`: a slice begins at a multiple of its steps.
constexpr GC_HD uint64_t slice_begin(uint64_t used, uint32_t record) {
  return (used + slice_steps(record) - 1) / slice_steps(record) * slice_steps(record);
}

// For a ring buffer of about buffer_bytes of Simple slots.
constexpr GC_HD ConnectionShape connection_shape(uint64_t buffer_bytes) {
  constexpr uint64_t kLine = 128, kMostLl = 16 << 10, kMostLl128 = 64 << 10;
  const uint64_t even = (buffer_bytes / kSteps + kLine - 1) / kLine * kLine;
  const uint64_t simple = even < kLine ? kLine : even;
  return {static_cast<uint32_t>(simple), static_cast<uint32_t>(simple < kMostLl ? simple : kMostLl),
          static_cast<uint32_t>(simple < kMostLl128 ? simple : kMostLl128)};
}

// The receiver's block: the tail counter, in its line direct_from and the sizes, the notes, then kSteps slots of each
// protocol.
struct ReceiveBlock {
  static constexpr size_t kTailOffset = 0;
  static constexpr size_t kDirectFromOffset = 64;
  static constexpr size_t kSizesOffset = 96;  // uint32_t[kSteps]
  static constexpr size_t kNotesOffset = sizeof(StepCounter);
  static constexpr size_t kSlotsOffset = kNotesOffset + sizeof(StepNotes);
  static constexpr GC_HD size_t ll_offset(const ConnectionShape& shape) {
    return kSlotsOffset + size_t{kSteps} * shape.simple;
  }
  static constexpr GC_HD size_t ll128_offset(const ConnectionShape& shape) {
    return ll_offset(shape) + size_t{kSteps} * shape.ll;
  }
  static constexpr GC_HD size_t bytes(const ConnectionShape& shape) {
    return ll128_offset(shape) + size_t{kSteps} * shape.ll128;
  }
};
static_assert(ReceiveBlock::kSizesOffset + kSteps * sizeof(uint32_t) == sizeof(StepCounter));
// The sender's block: the head counter, in its line the grant.
struct SendBlock {
  static constexpr size_t kHeadOffset = 0;
  static constexpr size_t kGrantOffset = 64;
  static constexpr size_t kBytes = sizeof(StepCounter);
};
static_assert(SendBlock::kGrantOffset + sizeof(Grant) <= SendBlock::kBytes);

// One end of a connection as a kernel sees it: kernel addresses, valid on this device only.
// step: the number of steps this end has used; seen: the peer's counter as it was read last, a lower bound of what it
// is now. Both are read at an operation's start, and written back at its end, by the one group of threads that owns the
// connection then.
struct Connector {
  uint8_t* receive;  // the ReceiveBlock
  uint8_t* send;     // the SendBlock
  uint64_t step;
  uint64_t seen;
};
static_assert(sizeof(Connector) == 32);

// The flag that tells of the data of step `step`: never 0, which is what fresh memory holds, and never that of another
// step of the same slot less than 2^32 - kSteps steps away.
constexpr GC_HD uint32_t flag_of(uint64_t step) {
  const uint32_t flag = static_cast<uint32_t>(step + 1);
  return flag != 0 ? flag : 1;  // 1 belongs to slot 0, where this, slot 7, never uses it otherwise
}

// The fields that two sides read, (structure, field, offset, bytes): asserted here, and compared by a test with the
// tables of docs/formats/connection.md.
#define GC_CONNECTION_FIELDS(F) \
  F(StepCounter, value, 0, 8)   \
  F(StepCounter, pad, 8, 120)   \
  F(Note, low, 0, 8)            \
  F(Note, high, 8, 8)           \
  F(Grant, address, 0, 8)       \
  F(Grant, bytes, 8, 8)         \
  F(Grant, step, 16, 8)         \
  F(Connector, receive, 0, 8)   \
  F(Connector, send, 8, 8)      \
  F(Connector, step, 16, 8)     \
  F(Connector, seen, 24, 8)
#define GC_ASSERT_FIELD(structure, field, offset, bytes) \
  static_assert(offsetof(structure, field) == offset && sizeof(structure::field) == bytes);
GC_CONNECTION_FIELDS(GC_ASSERT_FIELD)
#undef GC_ASSERT_FIELD

}  // namespace gpucoll::proto
