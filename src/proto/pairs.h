// Which channels a message between two ranks travels in: pure functions, equal on both sides, for kernels and planner.
//
// A message is cut into parts, a power of two of them; part p of a message over `distance` ranks travels in channel
// (mirror(p) + distance) mod n_channels, mirror reversing the bits of p. So few parts lie far apart, and neighbouring
// distances fill the gaps between them.
#pragma once
#include "proto/platform.h"

namespace gpucoll::proto {

// The lowest bits of `value`, as many as n has values, in reverse order. REQUIRES: n is a power of two, value < n.
constexpr GC_HD uint32_t mirror_bits(uint32_t value, uint32_t n) {
#if GC_ON_GPU
  if (!__builtin_is_constant_evaluated()) return __brev(value) >> 1 >> __clz(static_cast<int>(n));
#endif
  uint32_t mirrored = 0;
  for (; n > 1; n >>= 1, value >>= 1) mirrored = mirrored << 1 | (value & 1);
  return mirrored;
}

// The channel of a part. REQUIRES: n_channels is a power of two, part < n_channels.
constexpr GC_HD uint32_t pair_channel(uint32_t distance, uint32_t part, uint32_t n_channels) {
  return (mirror_bits(part, n_channels) + distance) & (n_channels - 1);
}

// The part that travels in a channel: the inverse; messages of fewer parts do not have it.
constexpr GC_HD uint32_t pair_part(uint32_t distance, uint32_t channel, uint32_t n_channels) {
  return mirror_bits((channel - distance) & (n_channels - 1), n_channels);
}

}  // namespace gpucoll::proto
