// Format: what the host hands to one kernel launch. A plan is passed by value (at most 4 KiB of kernel arguments).
//
// DeviceComm lies in device memory, written once by the host when connections are made; kernels read it, and
// write only `step` of the connectors they own. A plan's items are run in order by every active block; block b
// works for the channel whose bit is the b-th set bit of channel_mask.
//
// Completion. The last block of the grid to finish stores done_value into *done_word (host-mapped) with release at
// system scope; a host that loads it with acquire sees all that the kernel wrote to host memory, and may read the
// result from the device. Kernels leave early only when the fault latch is set, and store done_value then, too:
// the host looks at the latch before it trusts the result.
#pragma once
#include <cstddef>
#include <cstdint>

#include "proto/format/connection.h"
#include "proto/format/mesh.h"

namespace gpucoll::proto {

// The fault latch as kernels see it: host-mapped, written by the host once, read in every wait loop.
struct FaultLatch {
  uint32_t abort;  // 0 while all is well
};

struct DeviceComm {
  int32_t rank;
  int32_t n_ranks;
  uint32_t slot_bytes;  // bytes of one step; a multiple of 128
  uint32_t n_channels;
  const FaultLatch* latch;           // kernel address
  Connector* send;                   // [n_channels][n_ranks]: this rank's sending end towards each peer
  Connector* recv;                   // [n_channels][n_ranks]: this rank's receiving end from each peer
  uint32_t* blocks_done;             // counts the blocks that have finished; left at 0 by the last one
  uint8_t* const* mesh;              // [n_ranks]: each rank's mesh buffer (format/mesh.h); null where there is no mesh
  int32_t ring_next[kMaxChannels];   // rank of the neighbour that this rank sends to
  int32_t ring_prev[kMaxChannels];   // rank of the neighbour that it receives from
  int32_t ring_index[kMaxChannels];  // this rank's place in the ring: that of ring_next is one more, modulo n_ranks
};

// One collective, as a range of elements per channel is worked out from it (see coll/device).
struct CollectiveItem {
  const void* send;     // kernel address
  void* recv;           // kernel address; may equal send (in place)
  uint64_t count;       // elements
  uint32_t n_channels;  // the first n_channels of the mask take part
  union {
    uint32_t chunk_bytes;  // ring: 0: as the connection allows
    uint32_t flag;         // mesh: of this operation
  };
};

inline constexpr size_t kPlanBytes = 4096;
inline constexpr int kMaxItems = 64;

struct Plan {
  const DeviceComm* comm;
  uint64_t* done_word;  // kernel address of host-mapped memory
  uint64_t done_value;
  uint64_t channel_mask;
  uint32_t n_items;
  uint32_t reserved;
  CollectiveItem items[kMaxItems];
};
static_assert(sizeof(CollectiveItem) == 32);
static_assert(sizeof(Plan) <= kPlanBytes);

}  // namespace gpucoll::proto
