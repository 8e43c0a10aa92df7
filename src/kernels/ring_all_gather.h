// Ring allgather of one channel: every rank's block goes round the ring, n - 1 hops, and every rank keeps a copy.
//
// Thread safety: called by all threads of the block that works for the channel. Moves bytes: counts are in bytes.
#pragma once
#include "kernels/ring.h"

namespace gpucoll::coll::device {

template <class Protocol, class Block>
GC_NOINLINE void ring_all_gather(Block block, Work work) {
  using proto::Bytes;
  const auto coop = block.split(1);
  const Ring ring(work);
  auto prims = ring_primitives<Bytes, Protocol>(coop, work, ring.prev, ring.next, ring.n);
  const uint64_t count = work.item.count;
  const bool in_place = work.item.send == static_cast<const uint8_t*>(work.item.recv) + ring.rank_before(0) * count;

  const uint64_t most = most_elements<decltype(prims)>(work);
  each_chunk(prims, work.share<Bytes>(), most, [&](uint64_t at, uint64_t n) {
    const uint64_t own = ring.rank_before(0) * count + at;
    if (in_place)
      prims.direct_send(at, own, n);
    else
      prims.direct_copy_send(at, own, n);
    for (uint32_t k = 1; k + 1 < ring.n; ++k) prims.direct_recv_copy_send(ring.rank_before(k) * count + at, n);
    if (ring.n > 1) prims.direct_recv(ring.rank_before(ring.n - 1) * count + at, n);
  });
}

}  // namespace gpucoll::coll::device
