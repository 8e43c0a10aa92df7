// LL, the protocol for low latency: each word carries 4 bytes of data and, as 4 bytes of flag, the news of their
// arrival.
//
// A sender stores words, a receiver loads them until the flags are those it waits for. Data and news are one atomic
// of 8 bytes, so neither side needs an acquire, a release, a barrier or a counter; the price is half of the bandwidth.
// Memory is a block of lines (two words, format/mesh.h), first for the one half of each pack and then for the other.
//
// Thread safety: a pack has one writer. Ownership: none, `lines` is a peer's memory or one's own. Invariant, the
// caller's: a line is not stored anew before its reader has it, and flags of one line differ from use to use.
#pragma once
#include "proto/format/mesh.h"
#include "proto/platform.h"

namespace gpucoll::proto {

// A pack on its way.
struct LlPack {
  WordPair line[2];

  GC_DEV bool arrived(uint32_t flag) const {
#if GC_MUTANT == 3  // takes a line for whole when its first word is there
    return line[0].first >> 32 == flag && line[1].first >> 32 == flag;
#else
    return line[0].first >> 32 == flag && line[0].second >> 32 == flag &&  //
           line[1].first >> 32 == flag && line[1].second >> 32 == flag;
#endif
  }
  // REQUIRES: arrived().
  GC_DEV Pack data() const {
    return {{static_cast<uint32_t>(line[0].first), static_cast<uint32_t>(line[0].second),
             static_cast<uint32_t>(line[1].first), static_cast<uint32_t>(line[1].second)}};
  }
};

inline constexpr uint64_t kLlPacks = kMeshLines / 2;  // that a block of lines holds
static_assert(sizeof(WordPair) == kMeshLineBytes && sizeof(Pack) == 2 * kMeshLineData);

GC_DEV void ll_store(uint8_t* lines, uint64_t index, const Pack& pack, uint32_t flag) {
  WordPair* const to = reinterpret_cast<WordPair*>(lines) + index;
  const uint64_t news = uint64_t{flag} << 32;
  store_relaxed_pair(to, {news | pack.word[0], news | pack.word[1]});
  store_relaxed_pair(to + kLlPacks, {news | pack.word[2], news | pack.word[3]});
}
// What is there now, arrived or not.
GC_DEV LlPack ll_load(const uint8_t* lines, uint64_t index) {
  const WordPair* const from = reinterpret_cast<const WordPair*>(lines) + index;
  return {{load_relaxed_pair(from), load_relaxed_pair(from + kLlPacks)}};
}

}  // namespace gpucoll::proto
