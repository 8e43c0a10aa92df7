// run_plan: what every thread of a launch does: finds its channel, runs the plan's items in order, and reports the
// end of the grid. See proto/format/plan.h for the plan and for who may read what after it.
//
// Thread safety: called by all threads of all blocks of one launch; one launch per communicator at a time.
#pragma once
#include "coll/device/one_shot_all_reduce.h"
#include "coll/device/ring_all_reduce.h"

namespace gpucoll::coll::device {

// The position of the n-th set bit. REQUIRES: mask has more than n set bits.
GC_HD uint32_t nth_bit(uint64_t mask, uint32_t n) {
  for (; n > 0; --n) mask &= mask - 1;
  uint32_t position = 0;
  while ((mask >> position & 1) == 0) ++position;
  return position;
}

// The last block to finish stores the completion word. The barrier and the counter's acquire-release order
// everything that any block has written before that store; the host's acquire of the word pairs with it.
template <class Coop>
GC_DEV void finish_plan(const Coop& coop, uint32_t n_blocks, const proto::Plan& plan) {
  coop.sync();
  if (coop.rank() != 0) return;
  if (n_blocks > 1) {
    uint32_t* const finished = plan.comm->blocks_done;
    if (proto::fetch_add_acq_rel(finished, uint32_t{1}) != n_blocks - 1) return;
    proto::store_relaxed(finished, uint32_t{0});  // for the next launch, which comes after the completion word
  }
  proto::store_release(plan.done_word, plan.done_value);
}

// Which block works, and for which channel.
struct Place {
  uint32_t block, channel;
};

template <class Red>
GC_DEV Range share_of(const proto::CollectiveItem& item, uint32_t block) {
  if (block >= item.n_channels) return {0, 0};
  return channel_range(item.count, sizeof(typename Red::Element), item.n_channels, block);
}

// The algorithms: how a block does its part of an item. The answer is false on a thread that the fault latch has sent
// away. kMeet: the block has to meet between two items.
template <class Protocol = proto::Simple<>>
struct ByRing {
  static constexpr bool kMeet = false;
  template <class Red, class Coop>
  static GC_DEV bool run(const Coop& coop, const proto::DeviceComm& comm, Place place,
                         const proto::CollectiveItem& item) {
    if (place.block < item.n_channels)
      ring_all_reduce<Red, Protocol>(coop, comm, place.channel, item, share_of<Red>(item, place.block));
    return true;
  }
};
struct ByOneShot {
#if GC_MUTANT == 5
  static constexpr bool kMeet = false;
#else
  static constexpr bool kMeet = true;
#endif
  // Blocks without a share take part, too: see format/mesh.h.
  template <class Red, class Coop>
  static GC_DEV bool run(const Coop& coop, const proto::DeviceComm& comm, Place place,
                         const proto::CollectiveItem& item) {
#if GC_MUTANT == 6
    if (share_of<Red>(item, place.block).count == 0) return true;
#endif
    return OneShot<Red>(comm, place.channel, item, share_of<Red>(item, place.block)).run(coop);
  }
};

template <class Red, class Algorithm = ByRing<>, class Coop>
GC_DEV void run_plan(const Coop& coop, uint32_t block, uint32_t n_blocks, const proto::Plan& plan) {
  const proto::DeviceComm& comm = *plan.comm;
  const Place place{block, nth_bit(plan.channel_mask, block)};
  bool ok = true;
  for (uint32_t i = 0; i < plan.n_items; ++i) {
    if (Algorithm::kMeet && i > 0 && coop.any(!ok)) break;
    ok = Algorithm::template run<Red>(coop, comm, place, plan.items[i]);
  }
  finish_plan(coop, n_blocks, plan);
}

}  // namespace gpucoll::coll::device
