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

// Not inlined, as they are rarely needed.
template <class T>
GC_NOINLINE Pack read_rest(const uint8_t* p, uint32_t n) {
  return read_part<T>(p, n);
}
template <class T>
GC_NOINLINE void write_rest(uint8_t* p, Pack pack, uint32_t n) {
  write_part<T>(p, pack, n);
}

}  // namespace gpucoll::proto
