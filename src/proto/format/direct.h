// Format: what ranks of several processes tell each other about registered memory, for direct stores (proto/direct.h).
// It follows the copy lanes on a rank's page (format/peer.h): a DirectPage, then a DirectLane towards each rank. A
// rank's page is written by that rank only.
//
// Publishing. memory[i] is an allocation that the rank has registered. It stores the handle, then the number with
// release, then another version with release. Each publication has a number of its own, of the same allocation, too;
// 0: nothing is published there, or it is being changed. A peer that sees another version looks at each number
// (acquire), and copies the handle if the number is still there afterwards.
// Mapping. A peer that has opened memory[i] of this rank says so in mappings[i] of its lane towards it: the address,
// then the number with release. Before it closes that, it stores 0.
// Granting. A rank grants addresses in mappings whose number (acquire) is that of what it publishes now; it does not
// withdraw what an operation under way may use. So nobody stores through a mapping that is being closed.
#pragma once
#include <cstddef>
#include <cstdint>

namespace gpucoll::proto {

inline constexpr uint32_t kDirectMemory = 64;

struct alignas(64) PublishedMemory {
  uint64_t number;
  uint64_t handle[14];  // gpu::MemoryHandle
  uint8_t reserved[8];
};

struct alignas(64) DirectPage {
  uint64_t version;
  uint8_t reserved[56];
  PublishedMemory memory[kDirectMemory];
};

struct MappedMemory {
  uint64_t number;
  uint64_t address;  // of the allocation's start, in the kernels of the rank whose page this is
};

struct alignas(64) DirectLane {
  MappedMemory mappings[kDirectMemory];
};

// The fields, (structure, field, offset, bytes): asserted here, and compared by a test with docs/formats/direct.md.
#define GC_DIRECT_FIELDS(F)            \
  F(DirectPage, version, 0, 8)         \
  F(DirectPage, reserved, 8, 56)       \
  F(DirectPage, memory, 64, 8192)      \
  F(PublishedMemory, number, 0, 8)     \
  F(PublishedMemory, handle, 8, 112)   \
  F(PublishedMemory, reserved, 120, 8) \
  F(DirectLane, mappings, 0, 1024)     \
  F(MappedMemory, number, 0, 8)        \
  F(MappedMemory, address, 8, 8)
#define GC_ASSERT_FIELD(structure, field, offset, bytes) \
  static_assert(offsetof(structure, field) == offset && sizeof(structure::field) == bytes);
GC_DIRECT_FIELDS(GC_ASSERT_FIELD)
#undef GC_ASSERT_FIELD

}  // namespace gpucoll::proto
