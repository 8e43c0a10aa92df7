// run_plan: what every thread of a launch does: finds its channel, runs the channel's batches one after another, and
// reports the end of the grid. See proto/format/plan.h for the plan and for who may read what after it.
//
// Thread safety: called by all threads of all blocks of one launch; one launch per communicator at a time.
#pragma once
#include "coll/device/one_shot_all_reduce.h"
#include "coll/device/ring_all_gather.h"
#include "coll/device/ring_all_reduce.h"
#include "coll/device/ring_broadcast.h"
#include "coll/device/ring_reduce.h"
#include "coll/device/ring_reduce_scatter.h"
#include "coll/device/send_recv.h"
#include "coll/device/tree_all_reduce.h"
#include "proto/primitives_ll128.h"

namespace gpucoll::coll::device {

// The position of the n-th set bit. REQUIRES: mask has more than n set bits.
GC_HD uint32_t nth_bit(uint64_t mask, uint32_t n) {
  for (; n > 0; --n) mask &= mask - 1;
  uint32_t position = 0;
  while ((mask >> position & 1) == 0) ++position;
  return position;
}

// The last block to finish stores the completion word. The barrier and the counter's acquire-release order what any
// block has written and read before that store; the host's acquire of the word pairs with it. What peers wait for
// orders itself (format/connection.h), and so does a fault's report: results in this device's memory are left, and
// items, which have been read.
template <class Coop>
GC_DEV void finish_plan(const Coop& coop, uint32_t n_blocks, const proto::Plan& plan) {
  if (plan.done_word == nullptr) return;
  coop.sync();
  if (coop.rank() != 0) return;
  if (n_blocks > 1) {
    uint32_t* const finished = plan.comm->blocks_done;
    if (proto::fetch_add_acq_rel(finished, uint32_t{1}) != n_blocks - 1) return;
    proto::store_relaxed(finished, uint32_t{0});  // for the next launch, which comes after the completion word
  }
  proto::store_release_own(plan.done_word, plan.done_value);
}

// Items of the work FIFO lie across the bus: a batch's items come into the block's shared memory, as many at a time as
// it holds.
inline constexpr uint32_t kWindow = proto::kSharedBytes / sizeof(proto::WorkItem);
static_assert(kWindow >= proto::kPairsPerBatch);

// Copies the first items of `from` into the window: as many as it holds.
template <class Block>
GC_DEV Items bring(const Block& block, Items from, proto::WorkItem* window) {
  constexpr uint32_t kPacks = sizeof(proto::WorkItem) / sizeof(proto::Pack);
  uint32_t n = 0;
  for (uint64_t left = from.bits; left != 0 && n < kWindow; left &= left - 1) ++n;
  for (uint32_t p = static_cast<uint32_t>(block.rank()); p < n * kPacks; p += static_cast<uint32_t>(block.size())) {
    const uint64_t at = p % kPacks * sizeof(proto::Pack);
    const proto::WorkItem* const item = from.first + nth_bit(from.bits, p / kPacks);
    proto::store(reinterpret_cast<uint8_t*>(window + p / kPacks) + at,
                 proto::load<proto::Pack>(reinterpret_cast<const uint8_t*>(item) + at));
  }
  block.sync();
  return {window, (uint64_t{1} << n) - 1};
}

// body(items), for all items of a batch; several times where they have to be brought.
template <class Block, class Body>
GC_DEV void with_items(const Block& block, const proto::Plan& plan, const proto::Batch& batch, void* shared,
                       const Body& body) {
  if (plan.items == nullptr) return body(Items{plan.own_items() + batch.base, batch.items});
  uint64_t left = batch.items;
  while (left != 0) {
    const Items here = bring(block, {plan.items + batch.base, left}, static_cast<proto::WorkItem*>(shared));
    body(here);
    for (uint64_t bits = here.bits; bits != 0; bits &= bits - 1) left &= left - 1;
    block.sync();  // before the window is filled anew
  }
}

template <class Family, class Protocol, class Block>
GC_DEV void run_collective(const Block& block, const proto::Batch& batch, const Work& work) {
  using proto::Algorithm;
  using proto::Function;
  switch (batch.function) {
    case Function::all_reduce:
      if constexpr (Family::kOps != 0) {
        if (batch.algorithm == Algorithm::tree) return tree_all_reduce<Family, Protocol>(block, work);
        return ring_all_reduce<Family, Protocol>(block, work);
      }
      return;
    case Function::reduce:
      if constexpr (Family::kOps != 0) ring_reduce<Family, Protocol>(block, work);
      return;
    case Function::reduce_scatter:
      if constexpr (Family::kOps != 0) ring_reduce_scatter<Family, Protocol>(block, work);
      return;
    case Function::broadcast: return ring_broadcast<Protocol>(block, work);
    case Function::all_gather: return ring_all_gather<Protocol>(block, work);
    case Function::send_recv: return;
  }
}

// The functions that have direct stores, with them.
template <class Family, class Block>
GC_DEV void run_direct(const Block& block, const proto::Batch& batch, const Work& work) {
  using proto::DirectSimple;
  using proto::Function;
  if (batch.function == Function::broadcast) return ring_broadcast<DirectSimple>(block, work);
  if (batch.function == Function::all_gather) return ring_all_gather<DirectSimple>(block, work);
  if constexpr (Family::kOps != 0) ring_all_reduce<Family, DirectSimple>(block, work);
}

// The block's items one after another.
template <class Family, class Block>
GC_NOINLINE void run_collectives(Block block, const proto::DeviceComm& comm, uint32_t channel,
                                 const proto::Batch& batch, Items items) {
  items.each([&](const proto::WorkItem& item) {
    const Work work{comm, item.collective, channel, batch.op};
    switch (batch.protocol) {
      case proto::Protocol::simple:
        if (item.collective.direct != 0)
          run_direct<Family>(block, batch, work);
        else
          run_collective<Family, proto::Simple<>>(block, batch, work);
        break;
      case proto::Protocol::ll: run_collective<Family, proto::Ll>(block, batch, work); break;
      case proto::Protocol::ll128: run_collective<Family, proto::Ll128>(block, batch, work); break;
    }
    block.sync();  // the next item may cut the block otherwise
  });
}

// The kernel of a family. shared: kSharedBytes that the block's threads share.
template <class Family, class Block>
GC_DEV void run_plan(const Block& block, uint32_t index, uint32_t n_blocks, const proto::Plan& plan, void* shared) {
  const proto::DeviceComm& comm = *plan.comm;
  const uint32_t channel = nth_bit(plan.channel_mask, index);
  for (uint32_t b = index;;) {
    const proto::Batch& batch = plan.batch(b);
    with_items(block, plan, batch, shared, [&](Items items) {
      if (batch.function == proto::Function::send_recv) {
        send_recv(block, comm, channel, items);
        block.sync();
      } else {
        run_collectives<Family>(block, comm, channel, batch, items);
      }
    });
    b = batch.next;
    if (b == 0) break;
  }
  finish_plan(block, n_blocks, plan);
}

// The kernel of one-shot allreduces. Channels without a share take part, too, and the block meets between two items:
// see format/mesh.h.
template <class Red, class Block>
GC_DEV void run_one_shots(const Block& block, uint32_t index, uint32_t n_blocks, const proto::Plan& plan,
                          void* shared) {
  const uint32_t channel = nth_bit(plan.channel_mask, index);
  bool ok = true, first = true;
  with_items(block, plan, plan.batch(0), shared, [&](Items items) {
    items.each([&](const proto::WorkItem& item) {
#if GC_MUTANT != 5
      if (!first && block.any(!ok)) return;
#endif
      first = false;
      const OneShot<Red> one_shot(*plan.comm, channel, item.collective);
#if GC_MUTANT == 6
      if (one_shot.has_share()) ok = one_shot.run(block);
#else
      ok = one_shot.run(block);
#endif
    });
  });
  finish_plan(block, n_blocks, plan);
}

}  // namespace gpucoll::coll::device
