// How work is split: a collective's elements over channels, and within a channel over rounds and ranks; a message's
// bytes over parts.
//
// Pure functions of their arguments, the same on every rank and on the host (tests use them). Every boundary is a
// multiple of 16 bytes from the start, of 128 where the parts are large, so that packs stay aligned and lines whole.
#pragma once
#include "proto/platform.h"

namespace gpucoll::coll::device {

struct Range {
  uint64_t first, count;
};

// Where `elements` are cut into parts, they are cut at multiples of this many elements. REQUIRES: type_bytes is a power
// of two up to 16.
GC_HD uint64_t granule(uint64_t elements, uint32_t parts, uint32_t type_bytes) {
  constexpr uint32_t kPack = 16, kLine = 128, kLarge = 32 * kLine;  // bytes
  return (elements >= uint64_t{parts} * (kLarge / type_bytes) ? kLine : kPack) / type_bytes;
}

// The share of channel `channel` of n_channels: shares differ by at most one granule.
GC_HD Range channel_range(uint64_t count, uint32_t type_bytes, uint32_t n_channels, uint32_t channel) {
  if (n_channels == 1) return {0, count};
  const uint64_t unit = granule(count, n_channels, type_bytes);
  const uint64_t units = count / unit + (count % unit != 0);
  const uint64_t each = proto::quotient(units, n_channels), longer = units - each * n_channels;
  const uint64_t first = (each * channel + (channel < longer ? channel : longer)) * unit;  // `longer` get one more
  const uint64_t past = first + (each + (channel < longer)) * unit;
  if (first >= count) return {count, 0};
  return {first, (past < count ? past : count) - first};
}

// The elements of each rank's chunk in the next round, `left` elements being left: so that the rounds still needed
// are of one size, and every rank has work in the last one, too. most is a multiple of 128 bytes.
GC_HD uint64_t round_chunk(uint64_t left, uint32_t type_bytes, uint32_t n_ranks, uint64_t most) {
  const uint64_t round = most * n_ranks, rounds = left <= round ? 1 : proto::quotient(left + round - 1, round);
  const uint64_t even = proto::quotient(left + rounds * n_ranks - 1, rounds * n_ranks);
  const uint64_t unit = granule(even, 1, type_bytes);
  return (even + unit - 1) / unit * unit;
}

// The chunk in which a message of `bytes` best goes through a chain of `hops` moves one after another: every move costs
// some time by itself, and all but the first chunk wait for nothing. A power of two; `most` bytes at most.
GC_HD uint64_t pipeline_chunk(uint64_t bytes, uint32_t hops, uint64_t most) {
  // kMoveCost: the bytes that a channel moves in the time that a move costs by itself, about 3 us at 16 GB/s.
  constexpr uint64_t kMoveCost = 48 << 10, kLeast = 16 << 10;
  // (bytes / chunk + hops) * (kMoveCost + chunk) is least at chunk^2 = bytes * kMoveCost / hops.
  uint64_t chunk = kLeast;
  while (chunk < most && chunk * chunk / kMoveCost * hops < bytes) chunk *= 2;
  return chunk < most ? chunk : most;
}

// The bytes of part `part` of a message of `bytes` in `parts` parts: whole lines, but for the last one.
GC_HD Range pair_range(uint64_t bytes, uint32_t parts, uint32_t part) { return channel_range(bytes, 1, parts, part); }

}  // namespace gpucoll::coll::device
