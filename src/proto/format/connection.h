// Format: the memory of one connection (one channel, one direction, one pair of ranks), shared by two devices.
//
// A connection is a ring buffer of kSteps steps, each of slot_bytes bytes, with two step counters that only grow:
//
//   tail  in the receiver's memory; written by the sender: how many steps have been filled
//   head  in the sender's memory;   written by the receiver: how many steps have been drained
//
// Ordering. The sender writes the data of a step, then stores tail with release at system scope; the receiver
// loads tail with acquire before it reads the data. The receiver reads the data, then stores head with release;
// the sender loads head with acquire before it writes into the same slot again. Each counter has one writer.
// The sender may fill step s when s - head < kSteps; the receiver may read step s when tail > s.
// Counters are 64 bits wide and never wrap in practice; the code compares differences only, so that a wrap
// (tests start them just below it) does no harm.
//
// Placement. Each rank waits on memory of its own and writes into the peer's: polling stays off the link.
// Over the shared-memory transport all of it lies in host memory that both map.
#pragma once
#include <cstddef>
#include <cstdint>

namespace gpucoll::proto {

inline constexpr int kSteps = 8;
inline constexpr int kMaxChannels = 32;

struct alignas(128) StepCounter {
  uint64_t value;
  uint8_t pad[120];
};
static_assert(sizeof(StepCounter) == 128);

// The receiver's block: the tail counter, then kSteps slots. The sender's block: one head counter.
struct ReceiveBlock {
  static constexpr size_t kTailOffset = 0;
  static constexpr size_t kSlotsOffset = sizeof(StepCounter);
  static constexpr size_t bytes(size_t slot_bytes) { return kSlotsOffset + kSteps * slot_bytes; }
};
struct SendBlock {
  static constexpr size_t kHeadOffset = 0;
  static constexpr size_t kBytes = sizeof(StepCounter);
};

// One end of a connection as a kernel sees it: kernel addresses, valid on this device only.
// step: the number of steps this end has used; read at a kernel's start, written back at its end, by the one
// block that owns the channel.
struct Connector {
  uint8_t* slots;
  uint64_t* tail;
  uint64_t* head;
  uint64_t step;
};
static_assert(sizeof(Connector) == 32);

// The fields that two sides read, (structure, field, offset, bytes): asserted here, and compared by a test with the
// tables of docs/formats/connection.md.
#define GC_CONNECTION_FIELDS(F) \
  F(StepCounter, value, 0, 8)   \
  F(StepCounter, pad, 8, 120)   \
  F(Connector, slots, 0, 8)     \
  F(Connector, tail, 8, 8)      \
  F(Connector, head, 16, 8)     \
  F(Connector, step, 24, 8)
#define GC_ASSERT_FIELD(structure, field, offset, bytes) \
  static_assert(offsetof(structure, field) == offset && sizeof(structure::field) == bytes);
GC_CONNECTION_FIELDS(GC_ASSERT_FIELD)
#undef GC_ASSERT_FIELD

}  // namespace gpucoll::proto
