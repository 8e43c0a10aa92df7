// run_plan: what every thread of a launch does: finds its channel, runs the plan's items in order, and reports the
// end of the grid. See proto/format/plan.h for the plan and for who may read what after it.
//
// Thread safety: called by all threads of all blocks of one launch; one launch per communicator at a time.
#pragma once
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
  uint32_t* const finished = plan.comm->blocks_done;
  if (proto::fetch_add_acq_rel(finished, uint32_t{1}) != n_blocks - 1) return;
  proto::store_relaxed(finished, uint32_t{0});  // for the next launch, which comes after the completion word
  proto::store_release(plan.done_word, plan.done_value);
}

template <class Red, class Protocol = proto::Simple<>, class Coop>
GC_DEV void run_plan(const Coop& coop, uint32_t block, uint32_t n_blocks, const proto::Plan& plan) {
  const proto::DeviceComm& comm = *plan.comm;
  const uint32_t channel = nth_bit(plan.channel_mask, block);
  for (uint32_t i = 0; i < plan.n_items; ++i) {
    const proto::CollectiveItem& item = plan.items[i];
    if (block >= item.n_channels) continue;
    const Range share = channel_range(item.count, sizeof(typename Red::Element), item.n_channels, block);
    ring_all_reduce<Red, Protocol>(coop, comm, channel, item, share);
  }
  finish_plan(coop, n_blocks, plan);
}

}  // namespace gpucoll::coll::device
