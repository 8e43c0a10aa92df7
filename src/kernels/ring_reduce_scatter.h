// Ring reduce-scatter of one channel: the block of each rank starts at the rank after it, gathers every rank's
// contribution on its way round the ring, and is complete where it belongs.
//
// result = op(... op(x[p+1], x[p+2]) ..., x[p]), p being the place of the rank in the ring.
// Thread safety: called by all threads of the block that works for the channel.
#pragma once
#include "kernels/ring.h"

namespace gpucoll::coll::device {

template <class Family, class Protocol, class Block>
GC_NOINLINE void ring_reduce_scatter(Block block, Work work) {
  const auto coop = block.split(1);
  const Ring ring(work);
  auto prims = ring_primitives<Family, Protocol>(coop, work, ring.prev, ring.next);
  const uint64_t count = work.item.count;

  const uint64_t most = most_elements<decltype(prims)>(work);
  each_chunk(prims, work.share<Family>(), most, [&](uint64_t at, uint64_t n) {
    if (ring.n > 1) prims.send(ring.rank_before(1) * count + at, n);
    for (uint32_t k = 2; k < ring.n; ++k) prims.recv_reduce_send(ring.rank_before(k) * count + at, n);
    prims.recv_reduce_copy(ring.rank_before(0) * count + at, at, n);
  });
}

}  // namespace gpucoll::coll::device
