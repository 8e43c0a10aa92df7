// Ring reduce of one channel: chunk after chunk along the chain of ranks that ends at the root, every rank adding its
// contribution.
//
// result = op(... op(x[p+1], x[p+2]) ..., x[p]), p being the place of the root in the ring.
// Thread safety: called by all threads of the block that works for the channel.
#pragma once
#include "kernels/ring.h"

namespace gpucoll::coll::device {

template <class Family, class Protocol, class Block>
GC_NOINLINE void ring_reduce(Block block, Work work) {
  const auto coop = block.split(1);
  const Ring ring(work);
  const bool is_root = work.is_rank(work.item.root), is_first = ring.prev_is(work.item.root);
  auto prims =
      ring_primitives<Family, Protocol>(coop, work, is_first ? nullptr : ring.prev, is_root ? nullptr : ring.next);

  const Range share = work.share<Family>();
  const uint64_t chunk = pipeline_elements<decltype(prims)>(work, share, ring.n);
  each_chunk(prims, share, chunk, [&](uint64_t at, uint64_t n) {
    if (is_root)
      prims.recv_reduce_copy(at, at, n);
    else
      prims.recv_reduce_send(at, n);  // the first rank receives from nobody
  });
}

}  // namespace gpucoll::coll::device
