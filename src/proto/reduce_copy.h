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
#include "proto/platform.h"
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

// How one element is read and written; a pair member by member, so that padding stays as it is.
template <class T>
struct ElementAccess {
  static GC_DEV T read(const uint8_t* p, bool aligned) { return aligned ? load<T>(p) : load_unaligned<T>(p); }
  static GC_DEV void write(uint8_t* p, const T& value, bool aligned) {
    if (aligned) {
      store(p, value);
    } else {
      store_unaligned(p, value);
    }
  }
};
template <class V, class I>
struct ElementAccess<Pair<V, I>> {
  using P = Pair<V, I>;
  static constexpr size_t kIndexAt = offsetof(P, index);
  static GC_DEV P read(const uint8_t* p, bool aligned) {
    return {ElementAccess<V>::read(p, aligned), ElementAccess<I>::read(p + kIndexAt, aligned)};
  }
  static GC_DEV void write(uint8_t* p, const P& pair, bool aligned) {
    ElementAccess<V>::write(p, pair.value, aligned);
    ElementAccess<I>::write(p + kIndexAt, pair.index, aligned);
  }
};

template <class Red>
GC_DEV Pack apply_pack(const Pack& a, const Pack& b) {
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

// Moves kUnroll packs that lie `stride` bytes apart, the first at byte offset `at`. All loads come first.
template <class Red, int kUnroll, int kSrcs, int kDsts>
GC_DEV void move_packs(const Sources<kSrcs>& from, const Destinations<kDsts>& to, uint64_t at, uint64_t stride) {
  Pack in[kSrcs][kUnroll];
  GC_UNROLL
  for (int s = 0; s < kSrcs; ++s) {
    GC_UNROLL
    for (int u = 0; u < kUnroll; ++u) in[s][u] = load<Pack>(from.at[s] + at + u * stride);
  }
  GC_UNROLL
  for (int s = 1; s < kSrcs; ++s) {
    GC_UNROLL
    for (int u = 0; u < kUnroll; ++u) in[0][u] = apply_pack<Red>(in[0][u], in[s][u]);
  }
  GC_UNROLL
  for (int d = 0; d < kDsts; ++d) {
    GC_UNROLL
    for (int u = 0; u < kUnroll; ++u) store(to.at[d] + at + u * stride, in[0][u]);
  }
}

template <class Red, int kSrcs, int kDsts>
GC_DEV void move_element(const Sources<kSrcs>& from, const Destinations<kDsts>& to, uint64_t at, bool aligned) {
  using T = typename Red::Element;
  T value = ElementAccess<T>::read(from.at[0] + at, aligned);
  GC_UNROLL
  for (int s = 1; s < kSrcs; ++s) value = Red::apply(value, ElementAccess<T>::read(from.at[s] + at, aligned));
  GC_UNROLL
  for (int d = 0; d < kDsts; ++d) ElementAccess<T>::write(to.at[d] + at, value, aligned);
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

// How n elements are cut: `head` by element, `packs` packs, the rest by element.
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
  constexpr int kUnroll = kSrcs == 1 ? 8 : 4;  // 8 loads in flight per thread either way
  constexpr uint64_t kPer = sizeof(Pack) / sizeof(T);
  const uint64_t rank = static_cast<uint64_t>(coop.rank()), size = static_cast<uint64_t>(coop.size());
  const AddressBits bits = address_bits(from, to);
  const Cut cut = cut_elements<T>(n, bits);

  if constexpr (!kPadded<T>) {
    const uint64_t base = cut.head * sizeof(T), stride = size * sizeof(Pack);
    const uint64_t whole = cut.packs - cut.packs % (size * kUnroll);
    uint64_t p = rank;
    for (; p < whole; p += size * kUnroll) move_packs<Red, kUnroll>(from, to, base + p * sizeof(Pack), stride);
    for (; p < cut.packs; p += size) move_packs<Red, 1>(from, to, base + p * sizeof(Pack), stride);
  }
  // Head and tail in one loop, as if the packs between them were not there.
  const bool aligned = bits.any % alignof(T) == 0;
  const uint64_t in_packs = cut.packs * kPer;
  for (uint64_t e = rank; e < n - in_packs; e += size) {
    const uint64_t element = e < cut.head ? e : e + in_packs;
    move_element<Red>(from, to, element * sizeof(T), aligned);
  }
}

}  // namespace gpucoll::proto
