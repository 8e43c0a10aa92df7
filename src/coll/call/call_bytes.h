// Says how large a call of MPI's is, or what lies in runs. Thread safety: pure functions.
#pragma once
#include <algorithm>
#include <cstdint>
#include <numeric>

#include "abi/abi.h"

namespace gpucoll::coll {

inline uint64_t bytes_of(const gc_buffer& side, size_t blocks) noexcept {
  if (!side.given) return 0;
  return side.block_bytes ? std::accumulate(side.block_bytes, side.block_bytes + blocks, uint64_t{0}) : side.bytes;
}

inline uint64_t bytes_of(const gc_runs* runs, size_t n) noexcept {
  const auto add = [](uint64_t sum, const gc_runs& each) { return sum + uint64_t{each.bytes} * each.count; };
  return std::accumulate(runs, runs + n, uint64_t{0}, add);
}

// Returns the bytes of the larger side, on a communicator of so many ranks.
inline uint64_t bytes_of(const gc_call& call, size_t ranks) noexcept {
  const auto blocks = [ranks](const int* neighbors, int n) { return neighbors ? static_cast<size_t>(n) : ranks; };
  return std::max(bytes_of(call.send, blocks(call.destinations, call.n_destinations)),
                  bytes_of(call.recv, blocks(call.sources, call.n_sources)));
}

}  // namespace gpucoll::coll
