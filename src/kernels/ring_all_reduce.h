// Ring allreduce of one channel: n - 1 stages reduce, n - 1 stages distribute.
//
// Chunk p of a round starts at the rank after place p of the ring, gathers every rank's contribution on its way,
// and is complete at place p, which keeps it and sends it round: result = op(... op(x[p+1], x[p+2]) ..., x[p]).
// It is reduced once and then copied, so all ranks have the same bits, and the same call gives them again.
// In place, a complete chunk may be stored straight into an output that is an input as well: what was there is part of
// the chunk, and so has been read.
//
// Thread safety: called by all threads of the block that works for the channel.
#pragma once
#include "kernels/ring.h"

namespace gpucoll::coll::device {

// One round of the ring as a rank sees it: which elements the chunk of a place in the ring holds.
struct RingRound {
  uint64_t first;  // element at which the round starts
  uint64_t left;   // elements from there to the end of the channel's share
  uint64_t chunk;
  uint32_t n_ranks, index;

  // The chunk whose place is `steps` before this rank's own in the ring. REQUIRES: 0 <= steps <= n_ranks.
  GC_DEV Range before(uint32_t steps) const {
    const uint64_t at = (index >= steps ? index - steps : index + n_ranks - steps) * chunk;
    if (at >= left) return {first + left, 0};
    return {first + at, left - at < chunk ? left - at : chunk};
  }
};

template <class Prims>
GC_DEV void ring_round(Prims& prims, const RingRound& round) {
  const uint32_t n = round.n_ranks;
  Range c = round.before(1);
  prims.send(c.first, c.count);
  for (uint32_t k = 2; k < n; ++k) {
    c = round.before(k);
    prims.recv_reduce_send(c.first, c.count);
  }
  c = round.before(0);
  prims.direct_recv_reduce_copy_send(c.first, c.first, c.count);
  for (uint32_t k = 1; k < n - 1; ++k) {
    c = round.before(k);
    prims.direct_recv_copy_send(c.first, c.count);
  }
  c = round.before(n - 1);
  prims.direct_recv(c.first, c.count);
}

template <class Family, class Protocol, class Block>
GC_NOINLINE void ring_all_reduce(Block block, Work work) {
  const auto coop = block.split(1);
  const Ring ring(work);
  auto prims = ring_primitives<Family, Protocol>(coop, work, ring.prev, ring.next);
  const Range share = work.share<Family>();
  if (ring.n == 1) return prims.recv_reduce_copy(share.first, share.first, share.count);

  const uint64_t most = most_elements<decltype(prims)>(work);
  const uint32_t index = static_cast<uint32_t>(work.comm.ring_index);
  for (uint64_t done = 0; done < share.count && prims.ok();) {
    const uint64_t left = share.count - done;
    const uint64_t chunk = round_chunk(left, sizeof(typename Family::Element), ring.n, most);
    ring_round(prims, RingRound{share.first + done, left, chunk, ring.n, index});
    done += chunk * ring.n;
  }
}

}  // namespace gpucoll::coll::device
