// run_packing: the kernel that packs and unpacks elements with gaps. See proto/format/packing.h for what it is told.
//
// Packed bytes are dealt out in units as wide as all addresses and strides allow, neighbouring units to neighbouring
// threads: the packed side is always read or written in whole lines, the other as far as its runs are long.
// Thread safety: called by all threads of all blocks of one launch. No two items write the same byte.
#pragma once
#include "coll/device/run_plan.h"
#include "proto/format/packing.h"

namespace gpucoll::coll::device {

// Where a packed byte of an element lies, from where the element's memory begins.
GC_DEV int64_t place_in_levels(const proto::PackItem& item, uint64_t at) {
  uint64_t run = proto::quotient(at, item.run_bytes);
  int64_t place = static_cast<int64_t>(at - run * item.run_bytes);
  GC_UNROLL
  for (int l = 0; l < proto::kPackLevels; ++l) {
    if (run == 0) break;
    const uint64_t up = proto::quotient(run, item.level[l].count);
    place += static_cast<int64_t>(run - up * item.level[l].count) * item.level[l].stride;
    run = up;
  }
  return place;
}

GC_DEV int64_t place_in_runs(const proto::PackItem& item, uint64_t at) {
  const uint64_t granule = at >> item.granule_bits;
  uint32_t low = item.starts[granule], high = item.starts[granule + 1];
  while (low < high) {  // the last run that begins at `at` or before
    const uint32_t middle = low + (high - low + 1) / 2;
    if (item.runs[middle].packed <= at) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  const proto::PackRuns runs = item.runs[low];
  const uint64_t in = at - runs.packed, run = proto::quotient(in, runs.bytes);
  return runs.offset + static_cast<int64_t>(run) * runs.stride + static_cast<int64_t>(in - run * runs.bytes);
}

GC_DEV uint8_t* place_of(const proto::PackItem& item, uint64_t at) {
  const uint64_t element = proto::quotient(at, item.element_bytes), in = at - element * item.element_bytes;
  const int64_t place = item.runs == nullptr ? place_in_levels(item, in) : place_in_runs(item, in);
  return item.memory + (static_cast<int64_t>(element) * item.extent + place);
}

// This thread's units of the item, several at a time: all loads come first. `turn` of `turns`: the block's.
template <class Unit, class Block>
GC_DEV void move_units(const Block& block, const proto::PackItem& item, uint32_t turn, uint32_t turns) {
  const uint64_t n = item.bytes / sizeof(Unit), size = static_cast<uint64_t>(block.size());
  const uint64_t tile = proto::kPackUnroll * size, rank = static_cast<uint64_t>(block.rank());
  GC_NO_UNROLL
  for (uint64_t first = turn * tile + rank; first < n; first += turns * tile) {
    Unit value[proto::kPackUnroll];
    uint8_t* to[proto::kPackUnroll];
    GC_UNROLL
    for (uint32_t u = 0; u < proto::kPackUnroll; ++u) {
      const uint64_t at = (first + u * size) * sizeof(Unit);
      if (at >= item.bytes) break;
      uint8_t* const memory = place_of(item, at);
      uint8_t* const packed = item.packed + at;
      value[u] = proto::load<Unit>(item.unpacks != 0 ? packed : memory);
      to[u] = item.unpacks != 0 ? memory : packed;
    }
    GC_UNROLL
    for (uint32_t u = 0; u < proto::kPackUnroll; ++u) {
      if (first + u * size >= n) break;
      proto::store(to[u], value[u]);
    }
  }
}

template <class Block>
GC_DEV void move_item(const Block& block, const proto::PackItem& item, uint32_t turn, uint32_t turns) {
  switch (item.unit) {
    case 4: return move_units<proto::Pack>(block, item, turn, turns);
    case 3: return move_units<uint64_t>(block, item, turn, turns);
    case 2: return move_units<uint32_t>(block, item, turn, turns);
    case 1: return move_units<uint16_t>(block, item, turn, turns);
    default: return move_units<uint8_t>(block, item, turn, turns);
  }
}

// Nothing: a kernel is made of a type (kernels_shard.h).
template <class Nothing, class Block>
GC_DEV void run_packing(const Block& block, uint32_t index, uint32_t n_blocks, const proto::Plan& plan, void*) {
  const proto::PackItem* const items = proto::pack_items(plan);
  const uint32_t n = proto::pack_item_count(plan);
  GC_NO_UNROLL
  for (uint32_t i = 0; i < n; ++i) {
    const uint32_t first = items[i].first_block;
    move_item(block, items[i], index < first ? index + n_blocks - first : index - first, n_blocks);
  }
  finish_local_plan(block, n_blocks, plan);
}

}  // namespace gpucoll::coll::device
