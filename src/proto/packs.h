// Reads and writes a user's buffer as packs: whole ones as one access where the address allows it, others by element.
//
// n is the number of elements that the pack holds: fewer than fit in the last pack of a buffer, whose other elements
// are zeros when read and left alone when written. As in reduce_copy.h, padding inside of elements is neither read nor
// written (the last element's may lie outside of the buffer), and addresses that are no multiple of the element's
// alignment work, slowly.
//
// Thread safety: plain loads and stores of the calling thread.
#pragma once
#include "proto/reduce_copy.h"

namespace gpucoll::proto {

template <class T>
inline constexpr uint32_t kPerPack = sizeof(Pack) / sizeof(T);

template <class T>
GC_DEV bool is_whole_pack(const uint8_t* p, uint32_t n) {
  return !kPadded<T> && n == kPerPack<T> && reinterpret_cast<uintptr_t>(p) % sizeof(Pack) == 0;
}
template <class T>
GC_DEV bool is_aligned(const uint8_t* p) {
  return reinterpret_cast<uintptr_t>(p) % alignof(T) == 0;
}

template <class T, bool kAligned>
GC_DEV Pack read_elements(const uint8_t* p, uint32_t n) {
  T x[kPerPack<T>] = {};
  GC_UNROLL
  for (uint32_t i = 0; i < kPerPack<T>; ++i) {
    if (i < n) x[i] = ElementAccess<T, kAligned>::read(p + i * sizeof(T));
  }
  Pack pack;
  __builtin_memcpy(&pack, x, sizeof(Pack));
  return pack;
}
template <class T, bool kAligned>
GC_DEV void write_elements(uint8_t* p, const Pack& pack, uint32_t n) {
  T x[kPerPack<T>];
  __builtin_memcpy(x, &pack, sizeof(Pack));
  GC_UNROLL
  for (uint32_t i = 0; i < kPerPack<T>; ++i) {
    if (i < n) ElementAccess<T, kAligned>::write(p + i * sizeof(T), x[i]);
  }
}

// Not inlined, as they are rarely needed.
template <class T>
GC_NOINLINE Pack read_odd_pack(const uint8_t* p, uint32_t n) {
  return is_aligned<T>(p) ? read_elements<T, true>(p, n) : read_elements<T, false>(p, n);
}
template <class T>
GC_NOINLINE void write_odd_pack(uint8_t* p, Pack pack, uint32_t n) {
  is_aligned<T>(p) ? write_elements<T, true>(p, pack, n) : write_elements<T, false>(p, pack, n);
}

template <class T>
GC_DEV Pack read_pack(const uint8_t* p, uint32_t n) {
  return is_whole_pack<T>(p, n) ? load<Pack>(p) : read_odd_pack<T>(p, n);
}
template <class T>
GC_DEV void write_pack(uint8_t* p, const Pack& pack, uint32_t n) {
  is_whole_pack<T>(p, n) ? store(p, pack) : write_odd_pack<T>(p, pack, n);
}

}  // namespace gpucoll::proto
