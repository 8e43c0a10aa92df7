// The buffers of a call as blocks of bytes.
//
// Thread safety: pure functions.
#pragma once
#include "abi/abi.h"
#include "mpi/datatype/address.h"

namespace gpucoll::coll {

struct Block {
  const uint8_t* address;  // the caller's
  size_t bytes;
};

inline Block whole(const gc_buffer& buffer) { return {static_cast<const uint8_t*>(buffer.address), buffer.bytes}; }

// Returns the block that goes to or comes from one rank.
inline Block block_of(const gc_buffer& buffer, int rank, int n_ranks) {
  const auto r = static_cast<size_t>(rank);
  if (buffer.block_bytes) return {moved(buffer.address, buffer.block_offsets[r]), buffer.block_bytes[r]};
  const size_t bytes = buffer.bytes / static_cast<size_t>(n_ranks);
  return {static_cast<const uint8_t*>(buffer.address) + r * bytes, bytes};
}

}  // namespace gpucoll::coll
