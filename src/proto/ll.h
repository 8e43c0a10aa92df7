// LL, the protocol for low latency: each word carries 4 bytes of data and, as 4 bytes of flag, the news of their
// arrival.
//
// A sender stores words, a receiver loads them until the flags are those it waits for. Data and news are one atomic
// of 8 bytes, so neither side needs an acquire, a release, a barrier or a counter; the price is half of the bandwidth.
// Memory is a block of lines (two words, format/mesh.h), first for the one half of each pack and then for the other:
// neighbouring threads use neighbouring lines. Blocks are the mesh's (kLlPacks packs) and the slots of connections.
//
// Thread safety: a pack has one writer. Ownership: none, `lines` is a peer's memory or one's own. Invariant, the
// caller's: a line is not stored anew before its reader has it, and flags of one line differ from use to use.
#pragma once
#include "proto/format/connection.h"
#include "proto/format/mesh.h"
#include "proto/platform.h"

namespace gpucoll::proto {

// Where a part of a unit lies in the data of a step, and how long it is: 16 bytes, 8, or nothing.
struct LinePart {
  uint32_t offset, bytes;
};

// A pack on its way.
struct LlPack {
  WordPair line[2];

  GC_DEV bool arrived(uint32_t flag) const {
    if (kMutant == 3)  // takes a line for whole when its first word is there
      return line[0].first >> 32 == flag && line[1].first >> 32 == flag;
    return line[0].first >> 32 == flag && line[0].second >> 32 == flag &&  //
           line[1].first >> 32 == flag && line[1].second >> 32 == flag;
  }
  // REQUIRES: arrived().
  GC_DEV Pack data() const {
    return {{static_cast<uint32_t>(line[0].first), static_cast<uint32_t>(line[0].second),
             static_cast<uint32_t>(line[1].first), static_cast<uint32_t>(line[1].second)}};
  }
};

inline constexpr uint64_t kLlPacks = kMeshLines / 2;  // that a block of lines of the mesh holds
static_assert(sizeof(WordPair) == kMeshLineBytes && sizeof(Pack) == 2 * kMeshLineData);

// `packs`: how many the block holds.
GC_DEV void ll_store(uint8_t* lines, uint64_t index, const Pack& pack, uint32_t flag, uint64_t packs = kLlPacks) {
  WordPair* const to = reinterpret_cast<WordPair*>(lines) + index;
  const uint64_t news = uint64_t{flag} << 32;
  store_relaxed_pair(to, {news | pack.word[0], news | pack.word[1]});
  store_relaxed_pair(to + packs, {news | pack.word[2], news | pack.word[3]});
}
// Loads the pack that is there now, arrived or not.
GC_DEV LlPack ll_load(const uint8_t* lines, uint64_t index, uint64_t packs = kLlPacks) {
  const WordPair* const from = reinterpret_cast<const WordPair*>(lines) + index;
  return {{load_relaxed_pair(from), load_relaxed_pair(from + packs)}};
}

// A connection's slots as line_mover.h wants them. The unit is a pack, and one thread's.
class LlLines {
 public:
  static constexpr int kThreads = 1;
  static constexpr int kParts = 1;
  static constexpr int kUnroll = 1;
  static constexpr uint32_t kUnitBytes = sizeof(Pack);
  using Incoming = LlPack;

  explicit GC_DEV LlLines(const ConnectionShape& shape) : slot_bytes_(shape.ll) {}
  static constexpr GC_HD uint32_t step_bytes(const ConnectionShape& shape) { return shape.ll / 2; }
  static GC_DEV uint8_t* slots(uint8_t* receive, const ConnectionShape& shape) {
    return receive + ReceiveBlock::ll_offset(shape);
  }
  GC_DEV uint8_t* slot(uint8_t* slots, uint64_t step) const { return slots + step % kSteps * slot_bytes_; }

  static GC_DEV LinePart part(uint32_t unit, uint32_t, int) { return {unit * kUnitBytes, kUnitBytes}; }
  GC_DEV LlPack load(const uint8_t* slot, uint32_t unit, uint32_t) const { return ll_load(slot, unit, packs()); }
  static GC_DEV bool arrived(const LlPack& pack, uint32_t, uint32_t flag) { return pack.arrived(flag); }
  static GC_DEV Pack data(const LlPack& pack, int) { return pack.data(); }
  GC_DEV void store(uint8_t* slot, uint32_t unit, uint32_t, const Pack (&pack)[kParts], uint32_t flag) const {
    ll_store(slot, unit, pack[0], flag, packs());
  }
  static GC_DEV bool any(bool flag) { return flag; }

 private:
  GC_DEV uint32_t packs() const { return slot_bytes_ / static_cast<uint32_t>(2 * sizeof(Pack)); }

  const uint32_t slot_bytes_;
};

}  // namespace gpucoll::proto
