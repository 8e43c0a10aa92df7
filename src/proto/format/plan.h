// Format: what the host hands to one kernel launch, and what kernels know of their communicator.
//
// A Plan is passed by value (4 KiB of kernel arguments). It holds batches and, behind them, work items; items that do
// not fit there lie in the communicator's work FIFO (core/launch/work_fifo.h) and `items` points to them.
//
// Block b works for the channel whose bit is the b-th set bit of channel_mask. Its first batch is batch b; each batch
// names the next one of its channel, and a batch's items are item base + i for each set bit i of `items`:
//   collectives  one item after another, in the order of bits; the item says which channels take part
//   send_recv    up to kPairsPerBatch items at once, each by its own group of threads (a half of them sends, a half
//                receives); no two items of a batch have a peer in common on the same side
// One-shots have kernels of their own; a plan for one of those has only such items, all of them in batch 0, whatever
// their functions, and every block runs them all (format/mesh.h says why).
//
// DeviceComm lies in device memory, written by the host before the launches that need it; kernels write only `step` and
// `seen` of the connectors they own, `openings`, and the counters. A block begins by loading its channel's part of it,
// the counters and its items, all at once: what the first step of a ring or of a one-shot needs is there, not behind
// another pointer.
//
// Nothing in a plan is good for one launch only: what tells launches of a communicator apart are its counters, which
// the last block of the grid to finish advances for the next launch. Launches follow each other, so they need no more
// order than that.
//
// Completion. That block also stores the number of its launch among those that have a done_word into it (host-mapped),
// behind a release: at device scope, so that a host that loads it may use the result through the device, and write its
// items' places in the work FIFO anew; with results_on_host at system scope, so that it may read them itself. A plan
// captured into a graph has GraphWords instead: its first block stores `begun` when it begins, the last one `ended` as
// it would store the done_word; so the host sees a graph that waits, and knows when nothing of one is under way.
// Kernels leave early only when the fault latch is set, and count and tell then, too: the host looks at the latch
// before it trusts the result.
// A kernel that has stored into memory of the host takes a microsecond longer to end, since the device waits until the
// bus has taken the store. So a plan with tells_seldom stores the done_word only where none has been stored for
// kTellNs; the host then learns of the last launches by an event behind them.
#pragma once
#include <cstddef>
#include <cstdint>

#include "proto/format/connection.h"
#include "proto/format/mesh.h"

namespace gpucoll::proto {

struct Doorbell;
struct LineMeshEnds;

// The function, algorithm and protocol of a batch.
enum class Function : uint8_t {
  send_recv,
  broadcast,
  all_gather,
  all_reduce,
  reduce,
  reduce_scatter,
  scan,
  exscan,
  all_to_all,  // the last three in a mesh only: else they are messages
  gather,
  scatter,
};
inline constexpr int kFunctions = 11;
enum class Algorithm : uint8_t { ring, tree, one_shot, pairwise, all_pairs };
inline constexpr int kAlgorithms = 5;
enum class Protocol : uint8_t { simple, ll, ll128 };
inline constexpr int kProtocols = 3;

// The fault latch as kernels see it: host-mapped, read in every wait loop, set by the host, or by a kernel that finds
// that a message's sizes do not match. Such a kernel claims the report (claimed 0 -> 1), fills it, stores `kind` with
// release and then abort; the host, which acquires kind, makes a sentence of it.
struct FaultLatch {
  uint32_t abort;  // 0 while all is well
  uint32_t claimed;
  uint32_t kind;  // 0, kFaultSizes or kFaultCounts
  int32_t peer;   // who sends
  uint64_t sent_bytes, expected_bytes;
};
// Mismatched sizes of a message; mismatched counts, in elements, of a reduction on `peer` and on this rank.
inline constexpr uint32_t kFaultSizes = 1, kFaultCounts = 2;
static_assert(sizeof(FaultLatch) == 32);

// Connections for collectives (rings and trees) and for send and receive are separate. Links of a mesh over a network
// have no connectors.
enum LinkKind : int { kCollectiveLinks = 0, kPairLinks = 1, kMeshLinks = 2 };
inline constexpr int kLinkKinds = 2;  // that have connectors

inline constexpr int kTreeChildren = 2;
struct TreePlace {
  int32_t parent;                // -1 at the root
  int32_t child[kTreeChildren];  // -1 where there is none; the ones that are there come first
};

// How many of ring_ranks lie in ChannelComm itself, where the block looks anyway.
inline constexpr int kNearRanks = 15;

// A communicator as one channel sees it. The ends of the links towards the ring's neighbours lie here, all others in
// tables by rank (which have unused places for those).
struct alignas(128) ChannelComm {
  int32_t rank;
  int32_t n_ranks;
  uint32_t n_channels;       // of collectives; at most kMaxChannels
  uint16_t n_pair_channels;  // of send and receive; a power of two, at most kMaxChannels
  uint16_t network_mesh;     // not 0: the mesh goes over a network (format/mesh.h)
  FaultLatch* latch;         // kernel address
  ConnectionShape shape[kLinkKinds];
  Connector* send[kLinkKinds];  // [n_ranks]: this rank's sending end towards each peer
  Connector* recv[kLinkKinds];  // [n_ranks]: this rank's receiving end from each peer
  const int32_t* ring_ranks;    // [n_ranks]: the rank that is i hops after this one in the channel's ring
  TreePlace tree;
  int32_t ring_index;              // this rank's place in the ring: that of the next rank is one more, modulo n_ranks
  int32_t ring_next, ring_prev;    // -1 where this rank is alone
  Doorbell* doorbell;              // kernel address (format/doorbell.h)
  LineMeshEnds* line_mesh;         // kernel address (format/line_mesh.h)
  Connector ring_send, ring_recv;  // towards ring_next, and from ring_prev
  int32_t near_ranks[kNearRanks];  // the beginning of ring_ranks
  uint32_t openings;               // of zero-copy operations; kernels count them (format/zero_copy.h)
  uint8_t* mesh[kMeshMaxRanks];    // each rank's mesh buffer (format/mesh.h); null where there is no mesh
};
static_assert(sizeof(ChannelComm) == 384 && offsetof(ChannelComm, ring_send) == 128);

// Counts the launches of a communicator, equally in all blocks of a launch.
struct alignas(16) LaunchCounters {
  uint64_t done;       // launches with a done_word
  uint32_t mesh_flag;  // of the last mesh operation (format/mesh.h)
  uint32_t in_graphs;  // launches with GraphWords
  uint64_t told_ns;    // when the done_word was last stored, by the device's clock; of plans with tells_seldom
  uint64_t reserved;
};
inline constexpr uint64_t kTellNs = 1'000'000;

// The numbers of the last launch by a graph that has begun, and of the last one that has ended.
// LaunchCounters::in_graphs counts them; differences only are compared, as they may wrap.
struct alignas(16) GraphWords {
  uint64_t ended;  // where done_word points
  uint64_t begun;
};

struct DeviceComm {
  ChannelComm channel[kMaxChannels];
  LaunchCounters counters;
  uint32_t blocks_done;  // counts the blocks of a launch that have finished; left at 0 by the last one
  uint64_t latch_seen;   // of a launch that asks once: 2 x (counters.done + 1) + whether the latch was set
  alignas(128) uint64_t relay[2][16];  // a doorbell's words, for blocks that stay (format/doorbell.h)
};

// Tells what an item has to do with direct stores (proto/direct.h), in Simple: the kernel looks for what the next rank
// grants, and it grants `recv` itself. Items with neither bit have nothing to do with direct stores.
inline constexpr uint8_t kLooksForGrants = 1, kGrants = 2;

// One collective. `send` and `recv` are kernel addresses and may be equal (in place). count: elements; of a rank's
// contribution in all_gather and gather, of a rank's result in reduce_scatter and scatter, of what each rank has for
// each in all_to_all, of the whole buffer else.
struct CollectiveItem {
  const void* send;
  void* recv;
  uint64_t count;
  uint64_t argument;  // of the reduction: number of ranks (avg); the bits of a scalar, or where it lies (pre_mul_sum)
  uint32_t root;
  uint32_t chunk_bytes;    // most bytes of a rank's chunk in a round; 0: as the protocol allows
  uint16_t first_channel;  // channels first_channel .. first_channel + n_channels - 1 take part
  uint16_t n_channels;
  uint8_t scalar_in_memory;  // not 0: argument is the kernel address of an element in device memory, read by the kernel
  uint8_t direct;            // kLooksForGrants, kGrants; 0 but for broadcast, all_gather and all_reduce in a ring
  Function function;         // one-shot: of this operation
  uint8_t next_rank;         // one-shot: the rank after this one
  uint16_t threads;          // all_pairs: how many of a block take part, the same on all ranks; whole warps
  uint16_t addresses;        // of the plan's items, where the buffers' addresses lie; 0: no zero-copy (zero_copy.h)
  uint8_t open;              // with addresses: whether they are known, of all buffers that others use
  uint8_t reserved[3];
  union {
    uint64_t argument_high;  // the second 8 bytes of a scalar of complex128
    uint8_t* granted;        // with kGrants: recv as the kernels of the ring's previous rank, in all channels, know it
  };
};

// A send to the rank `distance` places after this one and a receive from the rank `distance` places before it; either
// may be missing (peer -1). distance 0 is this rank itself: then both are there and of one size.
// Part p of a message travels in channel pair_channel(distance, p), see kernels/split.h; part 0 always exists, so
// that messages of 0 bytes are matched, too.
struct SendRecvItem {
  const void* send;
  void* recv;
  uint64_t send_bytes, recv_bytes;
  int32_t send_peer, recv_peer;
  uint32_t distance;
  uint8_t send_parts, recv_parts;
  Protocol send_protocol, recv_protocol;
  uint8_t* granted;  // with kGrants: recv as the kernels of recv_peer know it
  uint8_t direct;    // kLooksForGrants of send, kGrants of recv
  uint8_t reserved[7];
};

// Where the kernels of each rank find a buffer of this one. Behind a collective of zero-copy lie two of them, of send
// and of recv, which are in no batch.
inline constexpr int kZeroCopyRanks = 8;
struct BufferAddresses {
  uint8_t* at[kZeroCopyRanks];
};
inline constexpr int kItemsOfAddresses = 2;

union alignas(16) WorkItem {
  CollectiveItem collective;
  SendRecvItem pair;
  BufferAddresses addresses;
};
static_assert(sizeof(CollectiveItem) == 64 && sizeof(SendRecvItem) == 64 && sizeof(WorkItem) == 64);

struct alignas(16) Batch {
  uint16_t next;  // index of the channel's next batch; 0: none
  Function function;
  Algorithm algorithm;
  Protocol protocol;  // of collectives; pairs have theirs in the items
  uint8_t op;         // of the kernel's family of reductions (proto/family.h)
  uint16_t base;
  uint64_t items;
};
static_assert(sizeof(Batch) == 16);

inline constexpr int kPairsPerBatch = 8;
inline constexpr int kItemsPerBatch = 64;
inline constexpr size_t kPlanBytes = 4096;
inline constexpr size_t kPlanWorkBytes = kPlanBytes - 48;

struct alignas(16) Plan {
  DeviceComm* comm;
  uint64_t* done_word;  // kernel address of host-mapped memory; null: nobody is told. In graphs, of GraphWords
  uint64_t channel_mask;
  const WorkItem* items;  // kernel address; null: in `work`, behind the batches
  uint32_t n_batches;
  uint32_t n_items;
  uint32_t resident_ns;     // one-shots and packing: how long to stay for further operations (format/doorbell.h)
  uint8_t results_on_host;  // not 0: some may lie in memory of the host, which reads them there
  uint8_t in_graph;         // not 0: captured
  uint8_t tells_seldom;     // not 0: the host does not wait for the done_word
  uint8_t reserved;
  uint8_t work[kPlanWorkBytes];

  GC_HD const Batch& batch(uint32_t i) const { return reinterpret_cast<const Batch*>(work)[i]; }
  GC_HD Batch& batch(uint32_t i) { return reinterpret_cast<Batch*>(work)[i]; }
  GC_HD const WorkItem* own_items() const {
    return reinterpret_cast<const WorkItem*>(work + size_t{n_batches} * sizeof(Batch));
  }
  GC_HD WorkItem* own_items() { return reinterpret_cast<WorkItem*>(work + size_t{n_batches} * sizeof(Batch)); }
};
static_assert(sizeof(Plan) == kPlanBytes && offsetof(Plan, work) == 48);

// The beginning of a plan that says all: as much as a launch has to carry.
constexpr GC_HD size_t used_bytes(const Plan& plan) {
  return offsetof(Plan, work) + plan.n_batches * sizeof(Batch) +
         (plan.items == nullptr ? plan.n_items * sizeof(WorkItem) : 0);
}
// Returns whether batches and items fit into the arguments together.
constexpr GC_HD bool fits_plan(size_t n_batches, size_t n_items) {
  return n_batches * sizeof(Batch) + n_items * sizeof(WorkItem) <= kPlanWorkBytes;
}

}  // namespace gpucoll::proto
