// Ring allreduce of one channel: n - 1 stages reduce, n - 1 stages distribute.
//
// Chunk p of a round starts at the rank after place p of the ring, gathers every rank's contribution on its way,
// and is complete at place p, which keeps it and sends it round: result = op(... op(x[p+1], x[p+2]) ..., x[p]).
// It is reduced once and then copied, so all ranks have the same bits, and the same call gives them again.
//
// Thread safety: called by all threads of the one group that works for the channel.
#pragma once
#include "coll/device/split.h"
#include "proto/primitives.h"

namespace gpucoll::coll::device {

// One round of the ring as a rank sees it: which elements the chunk of a place in the ring holds.
struct RingRound {
  uint64_t first;  // element at which the round starts
  uint64_t left;   // elements from there to the end of the channel's share
  uint64_t chunk;
  uint32_t n_ranks, index;

  // The chunk whose place is `steps` before this rank's own in the ring. REQUIRES: 0 <= steps <= n_ranks.
  GC_DEV Range before(uint32_t steps) const {
    const uint64_t at = (index + n_ranks - steps) % n_ranks * chunk;
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
  prims.recv_reduce_copy_send(c.first, c.first, c.count);
  for (uint32_t k = 1; k < n - 1; ++k) {
    c = round.before(k);
    prims.recv_copy_send(c.first, c.count);
  }
  c = round.before(n - 1);
  prims.recv(c.first, c.count);
}

// A communicator of one rank: nothing to wait for.
template <class Red, class Coop>
GC_DEV void copy_own(const Coop& coop, const proto::CollectiveItem& item, Range share) {
  constexpr uint64_t kBytes = sizeof(typename Red::Element);
  if (item.send == item.recv) return;
  const proto::Sources<1> from{{static_cast<const uint8_t*>(item.send) + share.first * kBytes}};
  const proto::Destinations<1> to{{static_cast<uint8_t*>(item.recv) + share.first * kBytes}};
  proto::reduce_copy<Red>(coop, from, to, share.count);
}

// channel: whose connections are used. share: this channel's part of the item's elements.
template <class Red, class Protocol = proto::Simple<>, class Coop>
GC_DEV void ring_all_reduce(const Coop& coop, const proto::DeviceComm& comm, uint32_t channel,
                            const proto::CollectiveItem& item, Range share) {
  constexpr uint32_t kBytes = sizeof(typename Red::Element);
  const uint32_t n = static_cast<uint32_t>(comm.n_ranks);
  if (n == 1) return copy_own<Red>(coop, item, share);

  proto::Connector* const send = &comm.send[channel * n + static_cast<uint32_t>(comm.ring_next[channel])];
  proto::Connector* const recv = &comm.recv[channel * n + static_cast<uint32_t>(comm.ring_prev[channel])];
  proto::Primitives<Red, Coop, Protocol> prims(coop, recv, send, comm.slot_bytes, comm.latch, item.send, item.recv);

  constexpr uint32_t kLine = 128;
  uint64_t most = Protocol::chunk_bytes(comm.slot_bytes);
  if (item.chunk_bytes >= kLine && item.chunk_bytes < most) most = item.chunk_bytes / kLine * kLine;
  const uint32_t index = static_cast<uint32_t>(comm.ring_index[channel]);
  for (uint64_t done = 0; done < share.count && prims.ok();) {
    const uint64_t left = share.count - done;
    const uint64_t chunk = round_chunk(left, kBytes, n, most / kBytes);
    ring_round(prims, RingRound{share.first + done, left, chunk, n, index});
    done += chunk * n;
  }
}

}  // namespace gpucoll::coll::device
