// Ring broadcast of one channel: chunk after chunk down the chain of ranks that starts at the root.
//
// Thread safety: called by all threads of the block that works for the channel. Moves bytes: counts are in bytes.
#pragma once
#include "kernels/ring.h"

namespace gpucoll::coll::device {

template <class Protocol, class Block>
GC_NOINLINE void ring_broadcast(Block block, Work work) {
  using proto::Bytes;
  const auto coop = block.split(1);
  const Ring ring(work);
  const bool is_root = work.is_rank(work.item.root), is_last = ring.next_is(work.item.root);
  auto prims =
      ring_primitives<Bytes, Protocol>(coop, work, is_root ? nullptr : ring.prev, is_last ? nullptr : ring.next);
  const bool in_place = work.item.send == work.item.recv;

  const Range share = work.share<Bytes>();
  const uint64_t chunk = pipeline_elements<decltype(prims)>(work, share, ring.n);
  each_chunk(prims, share, chunk, [&](uint64_t at, uint64_t n) {
    if (!is_root)
      prims.direct_recv_copy_send(at, n);  // the last rank sends to nobody
    else if (in_place)
      prims.direct_send(at, at, n);
    else
      prims.direct_copy_send(at, at, n);
  });
}

}  // namespace gpucoll::coll::device
