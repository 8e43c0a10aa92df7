// A channel's ring as a rank sees it, and primitives between its neighbours in it.
//
// Thread safety: constant; primitives as proto/primitives.h says. Ownership: none.
#pragma once
#include "kernels/work.h"

namespace gpucoll::coll::device {

struct Ring {
  uint32_t n;
  const int32_t* hops;            // hops[i]: the rank that is i hops after this one; hops[0] is this one
  proto::Connector *prev, *next;  // null where this rank is alone

  explicit GC_DEV Ring(const Work& work)
      : n(static_cast<uint32_t>(work.comm.n_ranks)),
        hops(n <= proto::kNearRanks ? work.comm.near_ranks : work.comm.ring_ranks),
        prev(work.recv_from(work.comm.ring_prev)),
        next(work.send_to(work.comm.ring_next)) {}
  // REQUIRES: steps <= n.
  GC_DEV uint32_t rank_before(uint32_t steps) const { return static_cast<uint32_t>(hops[steps == 0 ? 0 : n - steps]); }
  GC_DEV bool next_is(uint32_t rank) const { return static_cast<uint32_t>(hops[n == 1 ? 0 : 1]) == rank; }
  GC_DEV bool prev_is(uint32_t rank) const { return rank_before(1) == rank; }
};

template <class Family, class Protocol, class Coop>
using RingPrimitives = proto::Primitives<Family, Coop, Protocol, proto::Fan<1, 1>>;

// With a grant where the item has one, and the channel has a step to be taken: then every link of the ring has.
// blocks: of the item's count, in an output.
template <class Family, class Protocol>
GC_DEV proto::Buffers ring_buffers(const Work& work, uint32_t blocks) {
  proto::Buffers buffers = work.buffers();
  if constexpr (Protocol::kDirect) {
    const bool grants = (work.item.direct & proto::kGrants) != 0 && work.share<Family>().count != 0;
    buffers.granted = grants ? work.item.granted : nullptr;
    buffers.granted_bytes = work.item.count * sizeof(typename Family::Element) * blocks;
  }
  return buffers;
}

// prev, next: where to receive from and send to; null: nobody.
template <class Family, class Protocol, class Coop>
GC_DEV RingPrimitives<Family, Protocol, Coop> ring_primitives(const Coop& coop, const Work& work,
                                                              proto::Connector* prev, proto::Connector* next,
                                                              uint32_t blocks = 1) {
  return {coop,
          {{prev}, {next}},
          work.shape(),
          work.comm.latch,
          ring_buffers<Family, Protocol>(work, blocks),
          work.reduction<Family>()};
}

}  // namespace gpucoll::coll::device
