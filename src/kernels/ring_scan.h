// Scan of one channel: chunk after chunk along the ranks from the first to the last one, every rank adding its
// contribution and keeping what it has then (inclusive), or what it had before (exclusive).
//
// result of rank r = op(... op(x[0], x[1]) ..., x[r]), or up to x[r - 1]: in the order of ranks, whichever way the
// channel's ring goes. Exclusive, rank 0 has no result, and its output stays as it is.
// Thread safety: called by all threads of the block that works for the channel.
// REQUIRES: the reduction has no `post`: it would apply to what is sent on.
#pragma once
#include "kernels/ring.h"

namespace gpucoll::coll::device {

template <class Family, class Protocol, class Block>
GC_NOINLINE void ring_scan(Block block, Work work, bool inclusive) {
  const auto coop = block.split(1);
  const int32_t rank = work.comm.rank, n_ranks = work.comm.n_ranks;
  const bool is_first = rank == 0, is_last = rank == n_ranks - 1;
  auto prims =
      ring_primitives<Family, Protocol>(coop, work, work.recv_from(rank - 1), work.send_to(is_last ? -1 : rank + 1));

  const Range share = work.share<Family>();
  const uint64_t chunk = pipeline_elements<decltype(prims)>(work, share, static_cast<uint32_t>(n_ranks));
  each_chunk(prims, share, chunk, [&](uint64_t at, uint64_t n) {
    if (inclusive)
      prims.recv_reduce_copy_send(at, at, n);  // the first rank receives from nobody, the last one sends to nobody
    else if (is_first)
      prims.send(at, n);
    else if (is_last)
      prims.recv(at, n);
    else
      prims.recv_copy_reduce_send(at, at, n);
  });
}

}  // namespace gpucoll::coll::device
