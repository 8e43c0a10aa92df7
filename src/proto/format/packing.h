// Format: what a packing kernel is told. Packing copies elements with gaps (MPI's derived types) to consecutive bytes,
// unpacking the other way round; of what has gaps, only the bytes of data are read or written.
//
// The plan of a packing kernel has no batches: its items are PackItems, each as large as two WorkItems, in the plan
// itself. Written by the host (core/plan/planner.cpp). Tiles of pack_tile_bytes() are dealt out to the blocks in turn,
// those of an item behind those of the one before: so all blocks have work, whether there is one large item or there
// are many small ones.
//
// A plan with resident_ns stays for more copies. Of a CollectiveItem that is posted (format/doorbell.h),
// - `function` is kPostedBytes: `send`, `recv` and `count`, which are bytes, say what is copied where; or kPostedItems:
//   `count` PackItems lie at `send`, which is host-mapped memory, dealt out to n_channels blocks
// - n_channels says how many blocks take part: the first, or all. Only where all do, the first one tells the others,
//   as its next item: these may follow each other with gaps in their launches' numbers. Nothing is posted to several
//   blocks before all that they had was done
// - `argument` is the number of the launch
// - `root` is not 0 where results may lie in memory of the host
//
// An element is described in one of two ways.
// - By levels, where it is regular: runs of run_bytes; those of level l lie `stride` apart, `count` of them for each of
//   level l + 1. Packed byte p is byte p % run_bytes of run p / run_bytes.
// - By a list of runs in device memory, in the order of packed bytes. `starts` makes the search in it short: the run
//   with packed byte g << granule_bits of an element is one of starts[g] to starts[g + 1].
#pragma once
#include <cstdint>

#include "proto/format/plan.h"

namespace gpucoll::proto {

// Runs of `bytes` each, `stride` apart, up to the next entry's: the first has the element's packed byte `packed` and
// lies `offset` after the element's first run.
struct PackRuns {
  uint64_t packed;
  int64_t offset;
  uint64_t bytes;
  int64_t stride;
};
static_assert(sizeof(PackRuns) == 32);

struct PackLevel {
  uint64_t count;
  int64_t stride;
};
inline constexpr int kPackLevels = 3;

// The layout of an element, from its first byte of data on, as one process tells it to another; a list of runs, where
// it has one, is apart.
struct PackLayout {
  uint64_t element_bytes;
  int64_t extent;
  uint64_t run_bytes;
  PackLevel level[kPackLevels];
  uint64_t multiples;  // all offsets, lengths and strides within an element, by OR
};

struct alignas(16) PackItem {
  uint8_t* memory;         // first run of the first element; kernel address
  uint8_t* packed;         // kernel address
  uint64_t bytes;          // packed, of all elements
  uint64_t element_bytes;  // packed
  int64_t extent;          // from one element to the next
  const PackRuns* runs;    // kernel address; null: by levels
  const uint32_t* starts;  // kernel address
  uint64_t run_bytes;
  PackLevel level[kPackLevels];
  uint8_t unit;     // log2 of bytes, at most 4: addresses, lengths and strides are multiples of it
  uint8_t unpacks;  // kPacks, kUnpacks, kMoves
  uint8_t granule_bits;
  uint8_t reserved[11];
  uint16_t first_block;  // which has the item's first tile
};
// An item that moves has gaps on both sides: it says where its bytes go, and the item behind it, of kFrom, where they
// come from; neither has a `packed` side.
inline constexpr uint8_t kPacks = 0, kUnpacks = 1, kMoves = 2, kFrom = 3;
inline constexpr uint32_t kPackUnroll = 4;
inline constexpr uint32_t kItemsOfPacking = 2;  // WorkItems, in Plan::n_items
static_assert(sizeof(PackItem) == kItemsOfPacking * sizeof(WorkItem));

inline constexpr uint32_t kPackItems = kPlanWorkBytes / sizeof(PackItem);  // most of a plan

// Units narrower than this are not moved one by one: a thread puts together whole packs of the packed side, in pieces
// as wide as their places in memory allow.
inline constexpr uint8_t kLeastPackUnit = 2;
// Returns the bytes that the threads of a block move in one turn: kPackUnroll units each, or a pack.
GC_HD uint64_t pack_tile_bytes(const PackItem& item, uint64_t threads) {
  if (item.unpacks == kMoves) return kPackUnroll * threads << item.unit;
  return item.unit < kLeastPackUnit ? threads * sizeof(Pack) : kPackUnroll * threads << item.unit;
}

inline constexpr Function kPostedBytes = Function::broadcast, kPostedItems = Function::gather;
inline constexpr uint32_t kMostPostedItems = 7;

GC_HD const PackItem* pack_items(const Plan& plan) { return reinterpret_cast<const PackItem*>(plan.work); }
GC_HD PackItem* pack_items(Plan& plan) { return reinterpret_cast<PackItem*>(plan.work); }
GC_HD uint32_t pack_item_count(const Plan& plan) { return plan.n_items / kItemsOfPacking; }

}  // namespace gpucoll::proto
