// run_local_reduce: the kernel that reduces what copy engines have brought into this device's memory. See
// proto/format/local_reduction.h for what it is told.
//
// Operands are taken three at a time, so that reduce_copy serves any number of ranks; what is not complete yet lies
// where the first of the others was.
// Thread safety: called by all threads of all blocks of one launch. A block has tiles of its own.
#pragma once
#include "kernels/run_plan.h"
#include "proto/format/local_reduction.h"

namespace gpucoll::coll::device {

GC_DEV const uint8_t* operand(const proto::LocalReduction& r, uint32_t rank) {
  if (rank == r.rank) return r.own;
  return r.others + (rank < r.rank ? rank : rank - 1) * r.stride;
}

GC_DEV void write_results(proto::Operands& operands, const proto::LocalReduction& r, uint64_t at) {
  operands.write(r.result + at);
  GC_UNROLL
  for (int i = 0; i < proto::kMoreResults; ++i)
    if (i < r.n_more) operands.write(r.more[i] + at);
}

// n elements from byte `at` of each operand on. The block meets where threads read what others have written.
template <class Family, class Block>
GC_DEV void reduce_tile(const Block& block, const proto::LocalReduction& r, uint64_t at, uint64_t n) {
  const uint8_t* sum = operand(r, 0);
  if (r.n_ranks == 1) {
    proto::Operands operands{};
    operands.read(sum + at);
    write_results(operands, r, at);
    return proto::reduce_copy<Family>(block, operands, n, proto::Reduction{r.op, r.argument, 0});
  }
  GC_NO_UNROLL
  for (uint32_t next = 1; next < r.n_ranks;) {
    const bool first = next == 1;
    proto::Operands operands{};
    operands.read(sum + at);
    operands.read(operand(r, next++) + at);
    if (next < r.n_ranks) operands.read(operand(r, next++) + at);
    operands.n_raw = first && r.reduced == 0 ? operands.n_from : operands.n_from - 1;
    const bool last = next == r.n_ranks;
    operands.complete = last && r.partial == 0;
    if (last) {
      write_results(operands, r, at);
    } else {
      operands.write(r.others + at);
    }
    proto::reduce_copy<Family>(block, operands, n, proto::Reduction{r.op, r.argument, 0});
    sum = r.others;
    if (!last) block.sync();
  }
}

// Returns whether the latch is set. The latch lies in host memory, and 128 blocks that read it wait for each other, 150
// us in all. So the first block looks and tells the others: relaxed, as the word tells nothing but itself. The others
// do not rely on the first block to run beside them, nor on its being early.
GC_DEV bool latch_is_set(uint32_t index, proto::DeviceComm& comm) {
  constexpr uint32_t kTurns = 256;
  const uint64_t launch = comm.counters.done + 1;  // no block of this launch counts it before all have seen this
  for (uint32_t turn = 0; index != 0 && turn < kTurns; ++turn) {
    const uint64_t seen = proto::load_relaxed(&comm.latch_seen);
    if (seen / 2 == launch) return seen % 2 != 0;
    proto::pause();
  }
  const bool is_set = proto::load_relaxed(&comm.channel[0].latch->abort) != 0;
  if (index == 0) proto::store_relaxed(&comm.latch_seen, 2 * launch + (is_set ? 1 : 0));
  return is_set;
}

// Returns whether to give up; the same on all threads of the block.
template <class Block>
GC_DEV bool given_up(const Block& block, uint32_t index, const proto::Plan& plan) {
  if (proto::local_reduction(plan).waited == 0) return false;
  return block.any(block.rank() == 0 && latch_is_set(index, *plan.comm));
}

template <class Family, class Block>
GC_DEV void run_local_reduce(const Block& block, uint32_t index, uint32_t n_blocks, const proto::Plan& plan, void*) {
  constexpr uint64_t kSize = sizeof(typename Family::Element), kTile = proto::kLocalTile / kSize;
  const proto::LocalReduction& r = proto::local_reduction(plan);
  // Once: what has begun is soon done.
  const uint64_t count = given_up(block, index, plan) ? 0 : r.count;
  GC_NO_UNROLL
  for (uint64_t first = index * kTile; first < count; first += n_blocks * kTile) {
    const uint64_t left = count - first;
    reduce_tile<Family>(block, r, first * kSize, left < kTile ? left : kTile);
  }
  finish_local_plan(block, n_blocks, plan);
}

}  // namespace gpucoll::coll::device
