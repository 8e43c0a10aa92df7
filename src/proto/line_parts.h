// Parts of a line's data in the user's memory: whole ones at aligned addresses, and what is left at any.
//
// Thread safety: pure functions of what they are given; a part has one reader or writer.
#pragma once
#include "proto/packs.h"

namespace gpucoll::proto {

// A part of a unit in the user's memory: 16 bytes or 8 at an aligned address (bytes: which; 0: none), and n bytes at
// any.
GC_DEV Pack read_whole(const uint8_t* p, uint32_t bytes) {
  if (bytes == sizeof(Pack)) return load<Pack>(p);
  return __builtin_bit_cast(Pack, WordPair{bytes == 0 ? 0 : load<uint64_t>(p), 0});
}
GC_DEV void write_whole(uint8_t* p, const Pack& pack, uint32_t bytes) {
  if (bytes == sizeof(Pack)) return store(p, pack);
  if (bytes != 0) store(p, __builtin_bit_cast(WordPair, pack).first);
}
template <class T>
GC_DEV bool is_whole_part(const uint8_t* p, uint32_t n) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(p);
  return !kPadded<T> && ((n == sizeof(Pack) && address % sizeof(Pack) == 0) || (n == 8 && address % 8 == 0));
}
template <class T>
GC_DEV Pack read_part(const uint8_t* p, uint32_t n) {
  if (is_whole_part<T>(p, n)) return read_whole(p, n);
  if (sizeof(T) == 1 && n % 4 == 0 && reinterpret_cast<uintptr_t>(p) % 4 == 0) return read_pack<uint32_t>(p, n / 4);
  return read_pack<T>(p, n / sizeof(T));
}
template <class T>
GC_DEV void write_part(uint8_t* p, const Pack& pack, uint32_t n) {
  if (is_whole_part<T>(p, n)) return write_whole(p, pack, n);
  if (sizeof(T) == 1 && n % 4 == 0 && reinterpret_cast<uintptr_t>(p) % 4 == 0) {
    return write_pack<uint32_t>(p, pack, n / 4);
  }
  write_pack<T>(p, pack, n / sizeof(T));
}

// n bytes in words of 4, at most 4 of them. REQUIRES: in_words<T>(p, n).
template <class T>
GC_DEV bool in_words(const uint8_t* p, uint32_t n) {
  return !kPadded<T> && (reinterpret_cast<uintptr_t>(p) | n) % sizeof(uint32_t) == 0;
}
GC_DEV Pack read_words(const uint8_t* p, uint32_t n) {
  Pack pack{};
  GC_UNROLL
  for (uint32_t i = 0; i < 4; ++i) {
    if (i * sizeof(uint32_t) < n) pack.word[i] = load<uint32_t>(p + i * sizeof(uint32_t));
  }
  return pack;
}
GC_DEV void write_words(uint8_t* p, const Pack& pack, uint32_t n) {
  GC_UNROLL
  for (uint32_t i = 0; i < 4; ++i) {
    if (i * sizeof(uint32_t) < n) store(p + i * sizeof(uint32_t), pack.word[i]);
  }
}

// Not inlined, as they are rarely needed.
template <class T>
GC_NOINLINE Pack read_rest(const uint8_t* p, uint32_t n) {
  return read_part<T>(p, n);
}
template <class T>
GC_NOINLINE void write_rest(uint8_t* p, Pack pack, uint32_t n) {
  write_part<T>(p, pack, n);
}

// n <= 16 bytes at any address, the usual ones without a call: who waits for a call waits for all loads on their way.
template <class T>
GC_DEV Pack read_fast(const uint8_t* p, uint32_t n) {
  if (n == sizeof(Pack) && is_whole_part<T>(p, n)) return load<Pack>(p);
  return in_words<T>(p, n) ? read_words(p, n) : read_rest<T>(p, n);
}
template <class T>
GC_DEV void write_fast(uint8_t* p, const Pack& pack, uint32_t n) {
  if (n == sizeof(Pack) && is_whole_part<T>(p, n)) return store(p, pack);
  in_words<T>(p, n) ? write_words(p, pack, n) : write_rest<T>(p, pack, n);
}

}  // namespace gpucoll::proto
