// run_packing: the kernel that packs and unpacks elements with gaps. See proto/format/packing.h for what it is told.
//
// Packed bytes are dealt out in units as wide as all addresses and strides allow, neighbouring units to neighbouring
// threads: the packed side is always read or written in whole lines, the other as far as its runs are long. Where these
// would be bytes, or pairs of them, a thread has a whole pack of the packed side, and the pieces of runs that belong
// there are moved each in the widest units that its own place allows. Thread safety: called by all threads of all
// blocks of one launch. No two items write the same byte.
#pragma once
#include "kernels/run_plan.h"
#include "proto/format/packing.h"

namespace gpucoll::coll::device {

// Where a packed byte lies, and how many from it on lie one after another, to the end of its run.
struct Place {
  int64_t offset;
  uint64_t left;
};

// Returns the place of an element's packed byte `at`, from where the element's memory begins.
GC_DEV Place place_in_levels(const proto::PackItem& item, uint64_t at) {
  uint64_t run = proto::quotient(at, item.run_bytes);
  const uint64_t in = at - run * item.run_bytes;
  int64_t place = static_cast<int64_t>(in);
  GC_UNROLL
  for (int l = 0; l < proto::kPackLevels; ++l) {
    if (run == 0) break;
    const uint64_t up = proto::quotient(run, item.level[l].count);
    place += static_cast<int64_t>(run - up * item.level[l].count) * item.level[l].stride;
    run = up;
  }
  return {place, item.run_bytes - in};
}

GC_DEV Place place_in_runs(const proto::PackItem& item, uint64_t at) {
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
  const uint64_t behind = at - runs.packed, run = proto::quotient(behind, runs.bytes), in = behind - run * runs.bytes;
  return {runs.offset + static_cast<int64_t>(run) * runs.stride + static_cast<int64_t>(in), runs.bytes - in};
}

// From the item's memory on.
GC_DEV Place place_of(const proto::PackItem& item, uint64_t at) {
  const uint64_t element = proto::quotient(at, item.element_bytes), in = at - element * item.element_bytes;
  Place place = item.runs == nullptr ? place_in_levels(item, in) : place_in_runs(item, in);
  place.offset += static_cast<int64_t>(element) * item.extent;
  return place;
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
      uint8_t* const memory = item.memory + place_of(item, at).offset;
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

// The pieces of runs that a thread goes through for one pack.
class Pieces {
 public:
  GC_DEV Pieces(const proto::PackItem& item, uint64_t at) : item_(item), at_(at) {}

  // The next sizeof(uint64_t) packed bytes: `word` has them, or gets them.
  GC_DEV void move_word(uint64_t& word) {
    for (uint32_t done = 0; done < sizeof word;) {
      if (left_ == 0) go_on();
      done += move_piece(word, done);
    }
  }

 private:
  GC_DEV void go_on() {
    const Place place = place_of(item_, at_);
    memory_ = item_.memory + place.offset;
    left_ = place.left;
  }
  // In the widest unit that its address, its run and the word allow; how many bytes that were.
  GC_DEV uint32_t move_piece(uint64_t& word, uint32_t done) {
    const uint64_t room = sizeof word - done, most = left_ < room ? left_ : room;
    const auto address = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(memory_));
    if (most >= 8 && address % 8 == 0) return move_unit<uint64_t>(word, done);
    if (most >= 4 && address % 4 == 0) return move_unit<uint32_t>(word, done);
    if (most >= 2 && address % 2 == 0) return move_unit<uint16_t>(word, done);
    return move_unit<uint8_t>(word, done);
  }
  template <class Unit>
  GC_DEV uint32_t move_unit(uint64_t& word, uint32_t done) {
    if (item_.unpacks != 0)
      proto::store(memory_, static_cast<Unit>(word >> (8 * done)));
    else
      word |= static_cast<uint64_t>(proto::load<Unit>(memory_)) << (8 * done);
    memory_ += sizeof(Unit);
    at_ += sizeof(Unit);
    left_ -= sizeof(Unit);
    return sizeof(Unit);
  }

  const proto::PackItem& item_;
  uint64_t at_, left_ = 0;
  uint8_t* memory_ = nullptr;
};

GC_DEV void move_byte(const proto::PackItem& item, uint64_t at) {
  uint8_t* const memory = item.memory + place_of(item, at).offset;
  proto::store(item.unpacks != 0 ? memory : item.packed + at,
               proto::load<uint8_t>(item.unpacks != 0 ? item.packed + at : memory));
}

// Whole packs of the packed side, one a thread, and its ends byte by byte.
template <class Block>
GC_DEV void move_packs(const Block& block, const proto::PackItem& item, uint32_t turn, uint32_t turns) {
  constexpr uint64_t kPack = sizeof(proto::Pack);
  const uint64_t size = static_cast<uint64_t>(block.size()), rank = static_cast<uint64_t>(block.rank());
  const uint64_t offset = -reinterpret_cast<uintptr_t>(item.packed) % kPack;
  const uint64_t head = offset < item.bytes ? offset : item.bytes, packs = (item.bytes - head) / kPack;
  GC_NO_UNROLL
  for (uint64_t i = turn * size + rank; i < packs; i += turns * size) {
    const uint64_t at = head + i * kPack;
    uint64_t words[2] = {};
    if (item.unpacks != 0) {
      const auto pack = proto::load<proto::Pack>(item.packed + at);
      __builtin_memcpy(words, &pack, kPack);
    }
    Pieces pieces(item, at);
    pieces.move_word(words[0]);
    pieces.move_word(words[1]);
    if (item.unpacks != 0) continue;
    proto::Pack pack;
    __builtin_memcpy(&pack, words, kPack);
    proto::store(item.packed + at, pack);
  }
  if (turn != 0) return;
  GC_NO_UNROLL
  for (uint64_t i = rank; i < item.bytes - packs * kPack; i += size) move_byte(item, i < head ? i : i + packs * kPack);
}

// This thread's units of data that have gaps on both sides.
template <class Unit, class Block>
GC_DEV void move_between(const Block& block, const proto::PackItem& to, const proto::PackItem& from, uint32_t turn,
                         uint32_t turns) {
  const uint64_t n = to.bytes / sizeof(Unit), size = static_cast<uint64_t>(block.size());
  const uint64_t tile = proto::kPackUnroll * size, rank = static_cast<uint64_t>(block.rank());
  GC_NO_UNROLL
  for (uint64_t first = turn * tile + rank; first < n; first += turns * tile) {
    Unit value[proto::kPackUnroll];
    GC_UNROLL
    for (uint32_t u = 0; u < proto::kPackUnroll; ++u) {
      const uint64_t at = (first + u * size) * sizeof(Unit);
      if (at < to.bytes) value[u] = proto::load<Unit>(from.memory + place_of(from, at).offset);
    }
    GC_UNROLL
    for (uint32_t u = 0; u < proto::kPackUnroll; ++u) {
      const uint64_t at = (first + u * size) * sizeof(Unit);
      if (at < to.bytes) proto::store(to.memory + place_of(to, at).offset, value[u]);
    }
  }
}

template <class Block>
GC_DEV void move_both(const Block& block, const proto::PackItem& to, const proto::PackItem& from, uint32_t turn,
                      uint32_t turns) {
  switch (to.unit) {
    case 4: return move_between<proto::Pack>(block, to, from, turn, turns);
    case 3: return move_between<uint64_t>(block, to, from, turn, turns);
    case 2: return move_between<uint32_t>(block, to, from, turn, turns);
    case 1: return move_between<uint16_t>(block, to, from, turn, turns);
    default: return move_between<uint8_t>(block, to, from, turn, turns);
  }
}

template <class Block>
GC_DEV void move_item(const Block& block, const proto::PackItem& item, uint32_t turn, uint32_t turns) {
  switch (item.unit) {
    case 4: return move_units<proto::Pack>(block, item, turn, turns);
    case 3: return move_units<uint64_t>(block, item, turn, turns);
    case proto::kLeastPackUnit: return move_units<uint32_t>(block, item, turn, turns);
    default: return move_packs(block, item, turn, turns);
  }
}

// Units first, first + size, ... below n, kUnroll of them at most.
template <class Unit, uint32_t kUnroll>
GC_DEV void copy_some(uint8_t* to, const uint8_t* from, uint64_t first, uint64_t size, uint64_t n) {
  Unit value[kUnroll];
  GC_UNROLL
  for (uint32_t u = 0; u < kUnroll; ++u)
    if (first + u * size < n) value[u] = proto::load<Unit>(from + (first + u * size) * sizeof(Unit));
  GC_UNROLL
  for (uint32_t u = 0; u < kUnroll; ++u)
    if (first + u * size < n) proto::store(to + (first + u * size) * sizeof(Unit), value[u]);
}

template <class Unit, class Block>
GC_DEV void copy_units(const Block& block, uint8_t* to, const uint8_t* from, uint64_t bytes, uint32_t turn,
                       uint32_t turns) {
  const uint64_t n = bytes / sizeof(Unit), size = static_cast<uint64_t>(block.size());
  const uint64_t tile = proto::kPackUnroll * size, rank = static_cast<uint64_t>(block.rank());
  GC_NO_UNROLL
  for (uint64_t first = turn * tile + rank; first < n; first += turns * tile)
    copy_some<Unit, proto::kPackUnroll>(to, from, first, size, n);
}

// Copies packs with many loads of a thread under way at once: one block brings as much as it can from another device.
template <class Block>
GC_DEV void copy_packs(const Block& block, uint8_t* to, const uint8_t* from, uint64_t bytes, uint32_t turn,
                       uint32_t turns) {
  constexpr uint32_t kMany = 2 * proto::kPackUnroll;
  const uint64_t n = bytes / sizeof(proto::Pack), size = static_cast<uint64_t>(block.size());
  const uint64_t tile = kMany * size, rank = static_cast<uint64_t>(block.rank());
  GC_NO_UNROLL
  for (uint64_t first = turn * tile + rank; first < n; first += turns * tile) {
    const uint64_t whole = first + (kMany - 1) * size;
    if (whole < n) {
      copy_some<proto::Pack, kMany>(to, from, first, size, whole + 1);
      continue;
    }
    copy_some<proto::Pack, proto::kPackUnroll>(to, from, first, size, n);
    copy_some<proto::Pack, proto::kPackUnroll>(to, from, first + proto::kPackUnroll * size, size, n);
  }
}

// Copies the block's part of consecutive bytes, in the widest units that both addresses and the length allow.
template <class Block>
GC_DEV void copy_bytes(const Block& block, const proto::CollectiveItem& item, uint32_t turn) {
  auto* const to = static_cast<uint8_t*>(item.recv);
  const auto* const from = static_cast<const uint8_t*>(item.send);
  const uint64_t bits = reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from) | item.count;
  if (bits % sizeof(proto::Pack) == 0) return copy_packs(block, to, from, item.count, turn, item.n_channels);
  if (bits % sizeof(uint64_t) == 0) return copy_units<uint64_t>(block, to, from, item.count, turn, item.n_channels);
  if (bits % sizeof(uint32_t) == 0) return copy_units<uint32_t>(block, to, from, item.count, turn, item.n_channels);
  copy_units<uint8_t>(block, to, from, item.count, turn, item.n_channels);
}

template <class Block>
GC_DEV void move_items(const Block& block, const proto::PackItem* items, uint32_t n, uint32_t index,
                       uint32_t n_blocks) {
  GC_NO_UNROLL
  for (uint32_t i = 0; i < n; ++i) {
    const uint32_t first = items[i].first_block;
    const uint32_t turn = index < first ? index + n_blocks - first : index - first;
    if (items[i].unpacks == proto::kMoves) {
      move_both(block, items[i], items[i + 1], turn, n_blocks);
      ++i;
    } else {
      move_item(block, items[i], turn, n_blocks);
    }
  }
}

// Runs the block's part of what is posted: the window's first item. A list, which is far away, is brought behind it.
template <class Block>
GC_DEV void run_posted(const Block& block, uint32_t index, Stage& stage) {
  constexpr uint32_t kFirst = 2, kItemPacks = sizeof(proto::PackItem) / sizeof(proto::Pack);
  static_assert(kFirst + proto::kMostPostedItems * proto::kItemsOfPacking <= kWindow);
  const proto::CollectiveItem& item = stage.window[0].collective;
  if (item.function == proto::kPostedBytes) return copy_bytes(block, item, index);
  auto* const items = reinterpret_cast<uint8_t*>(&stage.window[kFirst]);
  const auto n = static_cast<uint32_t>(item.count);
  for (uint32_t p = static_cast<uint32_t>(block.rank()); p < n * kItemPacks; p += static_cast<uint32_t>(block.size()))
    proto::store(items + p * sizeof(proto::Pack),
                 proto::load_beside_writes(static_cast<const uint8_t*>(item.send) + p * sizeof(proto::Pack)));
  block.sync();
  move_items(block, reinterpret_cast<const proto::PackItem*>(items), n, index, item.n_channels);
}

// After its plan, a kernel that stays runs the copies that the host posts, until there is no more. See
// format/packing.h. before: the counters, this launch counted.
template <class Block>
GC_DEV void stay_for_copies(const Block& block, uint32_t index, uint32_t n_blocks, const proto::Plan& plan,
                            proto::LaunchCounters before, Stage& stage) {
  proto::Doorbell& doorbell = *plan.comm->channel[0].doorbell;
  const proto::CollectiveItem& item = stage.window[0].collective;
  for (uint64_t told = before.done + 1;; ++before.done) {
    if (index == 0) {
      const bool posted = await_host(block, doorbell, before.done + 1, plan.resident_ns, stage);
      const bool to_all = !posted || item.function == proto::kLeave || item.n_channels > 1;
      if (n_blocks > 1 && to_all) relay(block, posted, told++, stage, *plan.comm);
      if (!posted) break;
    } else {
      while (!look_at_doorbell(block, relay_words(*plan.comm, told), told, stage)) proto::pause();
      ++told;
    }
    if (item.function == proto::kLeave) break;
    const uint32_t blocks = item.n_channels;  // the window may hold the next item once the block has met
    const bool on_host = item.root != 0;
    before.done = item.argument - 1;
    run_posted(block, index, stage);
    block.sync();
    finish_plan(block, blocks, plan, before, before.mesh_flag, on_host);
  }
  if (index == 0 && block.rank() == 0) proto::store_release(&doorbell.left, before.done);
}

// Nothing: a kernel is made of a type (shard.h).
template <class Nothing, class Block>
GC_DEV void run_packing(const Block& block, uint32_t index, uint32_t n_blocks, const proto::Plan& plan, void* shared) {
  proto::LaunchCounters before = {};
  if (plan.resident_ns != 0) before = plan.comm->counters;  // before any block has ended
  move_items(block, proto::pack_items(plan), proto::pack_item_count(plan), index, n_blocks);
  finish_local_plan(block, n_blocks, plan);
  if (plan.resident_ns == 0) return;
  ++before.done;
  stay_for_copies(block, index, n_blocks, plan, before, *static_cast<Stage*>(shared));
}

}  // namespace gpucoll::coll::device
