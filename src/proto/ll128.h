// LL128, the protocol for bandwidth at low latency: lines of 128 bytes, the first 120 data and the last 8 the flag that
// tells of them.
//
// LL128 rests on this: 128 bytes that the threads of a warp store together, each 16 of them, arrive together; so a
// reader that sees the flag sees the line. NVLink keeps that promise; where a link does not, the tuner does not choose
// LL128. Eight neighbouring threads store and load a line. On the CPU one thread does: data in any order, then the flag
// with release, which the load of the flag acquires.
//
// A unit of movement is what a warp moves at once, kLines lines. Where its bytes come from: the 16 bytes of thread t of
// a line are neighbours of those of thread t + 1, for the seven threads that carry 16 bytes, line after line; behind
// them come the 8 bytes that the flags' threads carry. So each thread reads and writes the user's memory by whole
// words, neighbours at neighbouring addresses, and no data move between threads. Elements of 16 bytes leave the 8 bytes
// beside the flag unused.
//
// Thread safety: a line is stored by one warp. Ownership and invariant: as in ll.h.
#pragma once
#include "proto/ll.h"

namespace gpucoll::proto {

inline constexpr uint32_t kLl128LineBytes = 128;

// kBesideFlag: whether data travel in the 8 bytes beside the flag.
template <bool kBesideFlag>
class Ll128Lines {
  static constexpr uint32_t kPerLine = kLl128LineBytes / sizeof(WordPair);  // parts: seven packs and the flag's

 public:
  static constexpr int kThreads = kWarp >= 8 ? kWarp : 1;
  static constexpr int kParts = kThreads == 1 ? kPerLine : 1;
  static constexpr int kUnroll = kThreads == 1 ? 2 : 4;
  static constexpr uint32_t kLines = kThreads * kParts / kPerLine;
  static constexpr uint32_t kUnitBytes = kLines * (kBesideFlag ? 120 : 112);
  struct Incoming {
    WordPair words[kParts];
  };

  explicit GC_DEV Ll128Lines(const ConnectionShape& shape) : slot_bytes_(shape.ll128) {}
  static constexpr GC_HD uint32_t step_bytes(const ConnectionShape& shape) {
    return shape.ll128 / (kLines * kLl128LineBytes) * kUnitBytes;
  }
  static GC_DEV uint8_t* slots(uint8_t* receive, const ConnectionShape& shape) {
    return receive + ReceiveBlock::ll128_offset(shape);
  }
  GC_DEV uint8_t* slot(uint8_t* slots, uint64_t step) const { return slots + step % kSteps * slot_bytes_; }

  static GC_DEV LinePart part(uint32_t unit, uint32_t lane, int part) {
    const uint32_t index = lane + static_cast<uint32_t>(part), line = index / kPerLine, place = index % kPerLine;
    constexpr uint32_t kPacks = kPerLine - 1, kPackBytes = sizeof(Pack), kWordBytes = 8;
    const uint32_t base = unit * kUnitBytes;
    if (place < kPacks) return {base + (line * kPacks + place) * kPackBytes, kPackBytes};
    return {base + kLines * kPacks * kPackBytes + line * kWordBytes, kBesideFlag ? kWordBytes : 0};
  }

  GC_DEV Incoming load(const uint8_t* slot, uint32_t unit, uint32_t lane) const {
    const WordPair* const from = words(slot, unit) + lane;
    if constexpr (kThreads > 1) {
      return {{load_relaxed_pair(from)}};
    } else {
      Incoming in;
      in.words[kParts - 1].second = load_acquire(&from[kParts - 1].second);  // partner of the release in store()
      in.words[kParts - 1].first = load_relaxed(&from[kParts - 1].first);
      for (int i = 0; i < kParts - 1; ++i) in.words[i] = load_relaxed_pair(from + i);
      return in;
    }
  }
  // As far as this thread can tell: any() asks the others.
  static GC_DEV bool arrived(const Incoming& in, uint32_t lane, uint32_t flag) {
    return !has_flag(lane) || in.words[kParts - 1].second == flag;
  }
  static GC_DEV Pack data(const Incoming& in, int part) { return __builtin_bit_cast(Pack, in.words[part]); }

  GC_DEV void store(uint8_t* slot, uint32_t unit, uint32_t lane, const Pack (&pack)[kParts], uint32_t flag) const {
    WordPair* const to = words(slot, unit) + lane;
    if constexpr (kThreads > 1) {
      WordPair own = __builtin_bit_cast(WordPair, pack[0]);
      if (has_flag(lane)) own.second = flag;
      sync_warp();
      store_relaxed_pair(to, own);
    } else {
      if (kMutant == 8) store_release(&to[kParts - 1].second, uint64_t{flag});  // tells of data that are not there yet
      for (int i = 0; i < kParts - 1; ++i) store_relaxed_pair(to + i, __builtin_bit_cast(WordPair, pack[i]));
      store_relaxed(&to[kParts - 1].first, __builtin_bit_cast(WordPair, pack[kParts - 1]).first);
      if (kMutant != 8) store_release(&to[kParts - 1].second, uint64_t{flag});
    }
  }
  static GC_DEV bool any(bool flag) { return any_of_warp(flag); }

 private:
  static GC_DEV bool has_flag(uint32_t lane) { return kThreads == 1 || lane % kPerLine == kPerLine - 1; }
  static GC_DEV const WordPair* words(const uint8_t* slot, uint32_t unit) {
    return reinterpret_cast<const WordPair*>(slot + unit * (kLines * kLl128LineBytes));
  }
  static GC_DEV WordPair* words(uint8_t* slot, uint32_t unit) {
    return reinterpret_cast<WordPair*>(slot + unit * (kLines * kLl128LineBytes));
  }

  const uint32_t slot_bytes_;
};

}  // namespace gpucoll::proto
