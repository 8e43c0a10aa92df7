// reduce_copy: n elements from every source, reduced, into every destination.
//
// Result element i is op(... op(source 0, source 1) ..., last source); with one source it is a copy. Any element
// size, any alignment: where all addresses agree modulo 16 the bulk moves as packs of 16 bytes, several in flight
// per thread, neighbouring threads at neighbouring packs; the unaligned head and tail go by element, and so does
// everything where the addresses disagree or the element has padding. Addresses that are no multiple of the
// element's alignment work, slowly.
//
// Thread safety: all threads of the group call it with the same arguments; each element is read and written by one
// thread, which reads all sources before it writes. A destination may therefore equal a source, but not overlap
// it otherwise. No barrier inside: the caller synchronises before and after.
#pragma once
#include "proto/coop.h"
#include "proto/reduction.h"

namespace gpucoll::proto {

template <int kCount>
struct Sources {
  const uint8_t* at[kCount];
};
template <int kCount>
struct Destinations {
  uint8_t* at[kCount];
};

// Three units of movement: how one is read, combined and written.
//
// A pack of elements, 16-byte aligned.
template <class Red>
struct PackUnit {
  using Value = Pack;
  static GC_DEV Pack read(const uint8_t* p) { return load<Pack>(p); }
  static GC_DEV void write(uint8_t* p, const Pack& pack) { store(p, pack); }
  static GC_DEV Pack apply(const Pack& a, const Pack& b) {
    using T = typename Red::Element;
    constexpr int kPer = sizeof(Pack) / sizeof(T);
    T x[kPer], y[kPer];
    __builtin_memcpy(x, &a, sizeof(Pack));
    __builtin_memcpy(y, &b, sizeof(Pack));
    GC_UNROLL
    for (int i = 0; i < kPer; ++i) x[i] = Red::apply(x[i], y[i]);
    Pack result;
    __builtin_memcpy(&result, x, sizeof(Pack));
    return result;
  }
};

// Loads and stores of one element, at its own alignment or at any; pairs member by member, so that padding stays
// as it is.
template <class T, bool kAligned>
struct ElementAccess {
  static GC_DEV T read(const uint8_t* p) {
    if constexpr (kAligned) return load<T>(p);
    return load_unaligned<T>(p);
  }
  static GC_DEV void write(uint8_t* p, const T& value) {
    if constexpr (kAligned) return store(p, value);
    store_unaligned(p, value);
  }
};
template <class V, class I, bool kAligned>
struct ElementAccess<Pair<V, I>, kAligned> {
  using P = Pair<V, I>;
  static constexpr size_t kIndexAt = offsetof(P, index);
  static GC_DEV P read(const uint8_t* p) {
    return {ElementAccess<V, kAligned>::read(p), ElementAccess<I, kAligned>::read(p + kIndexAt)};
  }
  static GC_DEV void write(uint8_t* p, const P& pair) {
    ElementAccess<V, kAligned>::write(p, pair.value);
    ElementAccess<I, kAligned>::write(p + kIndexAt, pair.index);
  }
};
template <class Red, bool kAligned>
struct ElementUnit : ElementAccess<typename Red::Element, kAligned> {
  using Value = typename Red::Element;
  static GC_DEV Value apply(const Value& a, const Value& b) { return Red::apply(a, b); }
};

// Moves kUnroll units that lie kStride bytes apart, the first at byte offset `at`. All loads come first.
template <class Unit, int kUnroll, int kStride, int kSrcs, int kDsts>
GC_DEV void move_units(const Sources<kSrcs>& from, const Destinations<kDsts>& to, uint64_t at) {
  typename Unit::Value in[kSrcs][kUnroll];
  GC_UNROLL
  for (int s = 0; s < kSrcs; ++s) {
    GC_UNROLL
    for (int u = 0; u < kUnroll; ++u) in[s][u] = Unit::read(from.at[s] + at + u * kStride);
  }
  GC_UNROLL
  for (int s = 1; s < kSrcs; ++s) {
    GC_UNROLL
    for (int u = 0; u < kUnroll; ++u) in[0][u] = Unit::apply(in[0][u], in[s][u]);
  }
  GC_UNROLL
  for (int d = 0; d < kDsts; ++d) {
    GC_UNROLL
    for (int u = 0; u < kUnroll; ++u) Unit::write(to.at[d] + at + u * kStride, in[0][u]);
  }
}

// Moves n neighbouring units, the first at byte offset `at`. Batches while there are enough: each full warp takes
// kUnroll rows of kWarp units, a row being one coalesced access, and the rows' distance a constant. Then one by one.
template <class Unit, int kUnroll, int kSrcs, int kDsts, class Coop>
GC_DEV void move_all(const Coop& coop, const Sources<kSrcs>& from, const Destinations<kDsts>& to, uint64_t at,
                     uint64_t n) {
  constexpr int kBytes = sizeof(typename Unit::Value);
  const uint32_t rank = static_cast<uint32_t>(coop.rank()), size = static_cast<uint32_t>(coop.size());
  uint64_t done = 0;
  if constexpr (kUnroll > 1) {
    const uint32_t batch = size / kWarp * kWarp * kUnroll;
    const uint32_t own = rank / kWarp * kWarp * kUnroll + rank % kWarp;
    const bool in_full_warp = own < batch;
    for (; batch != 0 && n - done >= batch; done += batch) {
      if (in_full_warp) move_units<Unit, kUnroll, kWarp * kBytes>(from, to, at + (done + own) * kBytes);
    }
  }
  for (uint64_t i = done + rank; i < n; i += size) move_units<Unit, 1, 0>(from, to, at + i * kBytes);
}

// The address bits in which any of the addresses is not a multiple of 16, and those in which they disagree.
struct AddressBits {
  uint32_t any, differing;
};
template <int kSrcs, int kDsts>
GC_DEV AddressBits address_bits(const Sources<kSrcs>& from, const Destinations<kDsts>& to) {
  const uintptr_t first = reinterpret_cast<uintptr_t>(to.at[0]);
  uintptr_t any = 0, differing = 0;
  GC_UNROLL
  for (int s = 0; s < kSrcs; ++s) {
    any |= reinterpret_cast<uintptr_t>(from.at[s]);
    differing |= reinterpret_cast<uintptr_t>(from.at[s]) ^ first;
  }
  GC_UNROLL
  for (int d = 0; d < kDsts; ++d) {
    any |= reinterpret_cast<uintptr_t>(to.at[d]);
    differing |= reinterpret_cast<uintptr_t>(to.at[d]) ^ first;
  }
  constexpr uintptr_t kMask = sizeof(Pack) - 1;
  return {static_cast<uint32_t>(any & kMask), static_cast<uint32_t>(differing & kMask)};
}

// How n elements are cut: `head` by element, `packs` packs, the rest by element; all by element where packs are 0.
struct Cut {
  uint64_t head, packs;
};
template <class T>
GC_DEV Cut cut_elements(uint64_t n, AddressBits bits) {
  const uint32_t head_bytes = -bits.any & (sizeof(Pack) - 1);  // all agree, so `any` is everyone's offset
  const bool by_element = kPadded<T> || bits.differing != 0 || head_bytes % sizeof(T) != 0;
  const uint64_t head = head_bytes / sizeof(T);
  if (by_element || head >= n) return {n, 0};
  return {head, (n - head) / (sizeof(Pack) / sizeof(T))};
}

template <class Red, int kSrcs, int kDsts, class Coop>
GC_DEV void reduce_copy(const Coop& coop, const Sources<kSrcs>& from, const Destinations<kDsts>& to, uint64_t n) {
  static_assert(kSrcs >= 1 && kDsts >= 1);
  using T = typename Red::Element;
  constexpr uint64_t kPer = sizeof(Pack) / sizeof(T);
  const AddressBits bits = address_bits(from, to);
  if (bits.any % alignof(T) != 0) return move_all<ElementUnit<Red, false>, 1>(coop, from, to, 0, n);

  const Cut cut = cut_elements<T>(n, bits);
  if (cut.packs == 0) return move_all<ElementUnit<Red, true>, 4>(coop, from, to, 0, n);
  if constexpr (!kPadded<T>) {
    move_all<PackUnit<Red>, 4>(coop, from, to, cut.head * sizeof(T), cut.packs);
    // Head and tail in one loop, as if the packs between them were not there.
    const uint64_t in_packs = cut.packs * kPer;
    for (uint64_t e = static_cast<uint64_t>(coop.rank()); e < n - in_packs; e += static_cast<uint64_t>(coop.size())) {
      const uint64_t element = e < cut.head ? e : e + in_packs;
      move_units<ElementUnit<Red, true>, 1, 0>(from, to, element * sizeof(T));
    }
  }
}

}  // namespace gpucoll::proto
