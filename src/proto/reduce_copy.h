// reduce_copy: n elements from every source, reduced, into every destination.
//
// Result element i is op(... op(source 0, source 1) ..., last source); with one source it is a copy. Any element
// size, any alignment: where all addresses agree modulo 16 the bulk moves as packs of 16 bytes, several in flight
// per thread, neighbouring threads at neighbouring packs; the unaligned head and tail go by element, and so does
// everything where the addresses disagree or the element has padding. Addresses that are no multiple of the
// element's alignment work, slowly. Bytes are copied in the widest unit in which the addresses agree.
//
// Compiled once for each reduction, however many operands there are, and called: see family.h.
//
// Thread safety: all threads of the group call it with the same arguments but their own lane; each element is read and
// written by one thread, which reads all sources before it writes. A destination may therefore equal a source, but not
// overlap it otherwise. No barrier inside: the caller synchronises before and after.
#pragma once
#include "proto/float8_pairs.h"

namespace gpucoll::proto {

// This thread's place among those that move.
struct Lane {
  uint32_t rank, size;
};

inline constexpr int kMaxSources = 3, kMaxDestinations = 3;

// From where to where. Without sources, or without destinations, nothing moves.
struct Operands {
  const uint8_t* from[kMaxSources];
  uint8_t* to[kMaxDestinations];
  int n_from, n_to;
  int n_raw;  // to so many of the last sources `pre` applies: ranks' contributions as they came, and not yet reduced
  bool complete;  // every rank's contribution is in the result: `post` applies to it

  // One more. Indexes that are known when this is compiled keep the operands in registers.
  GC_DEV void read(const uint8_t* p) {
    GC_UNROLL
    for (int s = 0; s < kMaxSources; ++s) from[s] = s == n_from ? p : from[s];
    ++n_from;
  }
  GC_DEV void write(uint8_t* p) {
    GC_UNROLL
    for (int d = 0; d < kMaxDestinations; ++d) to[d] = d == n_to ? p : to[d];
    ++n_to;
  }
  GC_DEV bool last_is(const uint8_t* p) const {
    bool is = false;
    GC_UNROLL
    for (int d = 0; d < kMaxDestinations; ++d) is |= d == n_to - 1 && to[d] == p;
    return is;
  }
};

// Units of movement: how one is read, combined and written.
//
// A pack of elements, 16-byte aligned.
template <class Red>
struct PackUnit {
  using Value = Pack;
  using T = typename Red::Element;
  static constexpr int kPer = sizeof(Pack) / sizeof(T);

  static GC_DEV Pack read(const uint8_t* p) { return load<Pack>(p); }
  static GC_DEV void write(uint8_t* p, const Pack& pack) { store(p, pack); }
  static GC_DEV Pack apply(const Pack& a, const Pack& b) {
    if constexpr (kSlow) return apply_out_of_line(a, b);
    if constexpr (!kSlow) return applied(a, b);
  }
  // Prepares a pack; returns it unchanged where the reduction has no such hook.
  static GC_DEV Pack pre(const Pack& pack, const Reduction& reduction) {
    if constexpr (!kHasPre<Red>) return pack;
    if constexpr (kHasPre<Red> && kSlow) return pre_out_of_line(pack, reduction);
    if constexpr (kHasPre<Red> && !kSlow) return prepared(pack, reduction);
  }
  static GC_DEV Pack post(const Pack& pack, const Reduction& reduction) {
    if constexpr (!kHasPost<Red>) return pack;
    if constexpr (kHasPost<Red> && kSlow) return post_out_of_line(pack, reduction);
    if constexpr (kHasPost<Red> && !kSlow) return completed(pack, reduction);
  }

 private:
  // Elements are computed one at a time, or two.
  using Step = std::conditional_t<kInPairs<T>, uint16_t, T>;
  using Of = std::conditional_t<kInPairs<T>, PairsOf<Red>, Red>;
  static constexpr int kSteps = sizeof(Pack) / sizeof(Step);
  // Much code, for which there are no instructions: it is compiled once and called.
  static constexpr bool kSlow = kFloat8<T> && !kInPairs<T>;

  static GC_NOINLINE Pack apply_out_of_line(Pack a, Pack b) { return applied(a, b); }
  static GC_NOINLINE Pack pre_out_of_line(Pack pack, Reduction reduction) { return prepared(pack, reduction); }
  static GC_NOINLINE Pack post_out_of_line(Pack pack, Reduction reduction) { return completed(pack, reduction); }
  static GC_DEV Pack applied(const Pack& a, const Pack& b) {
    Step y[kSteps];
    __builtin_memcpy(y, &b, sizeof(Pack));
    return each(a, [&](Step x, int i) { return Of::apply(x, y[i]); });
  }
  static GC_DEV Pack prepared(const Pack& pack, const Reduction& reduction) {
    return each(pack, [&](Step x, int) { return Of::pre(x, reduction); });
  }
  static GC_DEV Pack completed(const Pack& pack, const Reduction& reduction) {
    return each(pack, [&](Step x, int) { return Of::post(x, reduction); });
  }
  template <class Change>
  static GC_DEV Pack each(const Pack& pack, const Change& change) {
    Step x[kSteps];
    __builtin_memcpy(x, &pack, sizeof(Pack));
    if constexpr (kSlow) {
      GC_NO_UNROLL
      for (int i = 0; i < kSteps; ++i) x[i] = change(x[i], i);
    } else {
      GC_UNROLL
      for (int i = 0; i < kSteps; ++i) x[i] = change(x[i], i);
    }
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
  static GC_DEV Value pre(const Value& x, const Reduction& reduction) {
    if constexpr (!kHasPre<Red>) return x;
    if constexpr (kHasPre<Red>) return Red::pre(x, reduction);
  }
  static GC_DEV Value post(const Value& x, const Reduction& reduction) {
    if constexpr (!kHasPost<Red>) return x;
    if constexpr (kHasPost<Red>) return Red::post(x, reduction);
  }
};
// Copies units, without a reduction.
template <class T, bool kAligned = true>
struct CopyUnit : ElementAccess<T, kAligned> {
  using Value = T;
};

// The work of one thread in one call, with a number of sources known when it is compiled: what they hold stays in
// registers.
template <int kSources>
class Mover {
 public:
  GC_DEV Mover(Lane lane, const Operands& operands, const Reduction& reduction)
      : lane_(lane), operands_(operands), reduction_(reduction) {}

  // Moves n neighbouring units, the first at byte offset `at`. Batches while there are enough: each full warp takes
  // kUnroll rows of kWarp units, a row being one coalesced access, and the rows' distance a constant. Then one by one.
  template <class Unit, int kUnroll>
  GC_DEV void move(uint64_t at, uint64_t n) const {
    constexpr int kBytes = sizeof(typename Unit::Value);
    uint64_t done = 0;
    if constexpr (kUnroll > 1) {
      const uint32_t batch = lane_.size / kWarp * kWarp * kUnroll;
      const uint32_t own = lane_.rank / kWarp * kWarp * kUnroll + lane_.rank % kWarp;
      const bool in_full_warp = own < batch;
      for (; batch != 0 && n - done >= batch; done += batch) {
        if (in_full_warp) units<Unit, kUnroll, kWarp * kBytes>(at + (done + own) * kBytes);
      }
    }
    for (uint64_t i = done + lane_.rank; i < n; i += lane_.size) units<Unit, 1, 0>(at + i * kBytes);
  }

  // Units [0, head) and those from head + between on, n in all, as if the bytes between them were not there.
  template <class Unit>
  GC_DEV void move_ends(uint64_t n, uint64_t head, uint64_t between) const {
    for (uint64_t i = lane_.rank; i < n; i += lane_.size) {
      units<Unit, 1, 0>((i < head ? i : i + between) * sizeof(typename Unit::Value));
    }
  }

 private:
  // Moves kUnroll units that lie kStride bytes apart, the first at byte offset `at`. All loads come first.
  template <class Unit, int kUnroll, int kStride>
  GC_DEV void units(uint64_t at) const {
    typename Unit::Value in[kSources][kUnroll];
    GC_UNROLL
    for (int s = 0; s < kSources; ++s) {
      GC_UNROLL
      for (int u = 0; u < kUnroll; ++u) in[s][u] = Unit::read(operands_.from[s] + at + u * kStride);
    }
    if constexpr (requires { &Unit::apply; }) combine<Unit, kUnroll>(in);
    GC_UNROLL
    for (int d = 0; d < kMaxDestinations; ++d) {
      if (d > 0 && d >= operands_.n_to) break;
      GC_UNROLL
      for (int u = 0; u < kUnroll; ++u) Unit::write(operands_.to[d] + at + u * kStride, in[0][u]);
    }
  }

  // Into in[0].
  template <class Unit, int kUnroll>
  GC_DEV void combine(typename Unit::Value (&in)[kSources][kUnroll]) const {
    GC_UNROLL
    for (int u = 0; u < kUnroll; ++u) {
      GC_UNROLL
      for (int s = 0; s < kSources; ++s)
        if (s >= kSources - operands_.n_raw) in[s][u] = Unit::pre(in[s][u], reduction_);
      GC_UNROLL
      for (int s = 1; s < kSources; ++s) in[0][u] = Unit::apply(in[0][u], in[s][u]);
      if (operands_.complete) in[0][u] = Unit::post(in[0][u], reduction_);
    }
  }

  const Lane lane_;
  const Operands operands_;
  const Reduction reduction_;
};

// The address bits in which any of the addresses is not a multiple of 16, and those in which they disagree.
struct AddressBits {
  uint32_t any, differing;
};
GC_DEV AddressBits address_bits(const Operands& operands) {
  const uintptr_t first = reinterpret_cast<uintptr_t>(operands.to[0]);
  uintptr_t any = 0, differing = 0;
  const auto look_at = [&](uintptr_t address) {
    any |= address;
    differing |= address ^ first;
  };
  GC_UNROLL
  for (int s = 0; s < kMaxSources; ++s) {
    if (s < operands.n_from) look_at(reinterpret_cast<uintptr_t>(operands.from[s]));
  }
  GC_UNROLL
  for (int d = 0; d < kMaxDestinations; ++d) {
    if (d < operands.n_to) look_at(reinterpret_cast<uintptr_t>(operands.to[d]));
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

// n elements, reduced by one reduction, from as many sources as are known when it is compiled.
template <class Red, int kSources>
GC_NOINLINE void reduce_copy_by(Lane lane, Operands operands, uint64_t n, Reduction reduction) {
  using T = typename Red::Element;
  const Mover<kSources> mover(lane, operands, reduction);
  const AddressBits bits = address_bits(operands);
  if (bits.any % alignof(T) != 0) return mover.template move<ElementUnit<Red, false>, 1>(0, n);

  const Cut cut = cut_elements<T>(n, bits);
  if (cut.packs == 0) return mover.template move<ElementUnit<Red, true>, 4>(0, n);
  if constexpr (!kPadded<T>) {
    const uint64_t in_packs = cut.packs * (sizeof(Pack) / sizeof(T));
    mover.template move<PackUnit<Red>, 4>(cut.head * sizeof(T), cut.packs);
    mover.template move_ends<ElementUnit<Red, true>>(n - in_packs, cut.head, in_packs);
  }
}

// n bytes, in units of T but for their ends.
template <class T>
GC_DEV void copy_bytes_as(const Mover<1>& mover, uint64_t n, AddressBits bits) {
  const uint64_t offset = -bits.any & (sizeof(T) - 1), head = offset < n ? offset : n;
  const uint64_t units = (n - head) / sizeof(T);
  mover.template move<CopyUnit<T>, 4>(head, units);
  if constexpr (sizeof(T) > 1)
    mover.template move_ends<CopyUnit<uint8_t>>(n - units * sizeof(T), head, units * sizeof(T));
}
// n bytes from the one source.
GC_NOINLINE inline void copy_bytes(Lane lane, Operands operands, uint64_t n) {
  const Mover<1> mover(lane, operands, Reduction{});
  const AddressBits bits = address_bits(operands);
  if (bits.differing == 0) return copy_bytes_as<Pack>(mover, n, bits);
  if (bits.differing % 8 == 0) return copy_bytes_as<uint64_t>(mover, n, bits);
  if (bits.differing % 4 == 0) return copy_bytes_as<uint32_t>(mover, n, bits);
  if (bits.differing % 2 == 0) return copy_bytes_as<uint16_t>(mover, n, bits);
  copy_bytes_as<uint8_t>(mover, n, bits);
}
// n elements with padding, which stays as it is.
template <class T>
GC_NOINLINE void copy_padded(Lane lane, Operands operands, uint64_t n) {
  const Mover<1> mover(lane, operands, Reduction{});
  if (address_bits(operands).any % alignof(T) != 0) return mover.template move<CopyUnit<T, false>, 1>(0, n);
  mover.template move<CopyUnit<T>, 4>(0, n);
}

// n elements from the one source.
template <class T>
GC_DEV void copy_elements(Lane lane, const Operands& operands, uint64_t n) {
  if constexpr (kPadded<T>) {
    copy_padded<T>(lane, operands, n);
  } else {
    copy_bytes(lane, operands, n * sizeof(T));
  }
}

}  // namespace gpucoll::proto
