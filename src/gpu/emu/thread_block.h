// A block of CPU threads on the emulated device, as kernels see it: EmuBlock says who a thread is, ThreadBlock is the
// Coop over its block, ThreadBlockPart that over a part of it.
//
// Thread safety: one EmuBlock a thread; a block's memory is shared by its threads. Ownership: the pool that runs the
// block owns its memory and outlives the kernel. Invariant: every thread of a group calls sync() and any() in the same
// order. Waiting threads yield, so that two cores carry many blocks.
#pragma once
#include <cstdint>

#include "proto/coop.h"

namespace gpucoll::gpu {
namespace emu {

// A reusable barrier that also ORs one bit of each thread. Two words, no fence: ThreadSanitizer follows it.
class BlockBarrier {
 public:
  BlockBarrier() = default;
  BlockBarrier(const BlockBarrier&) = delete;
  BlockBarrier& operator=(const BlockBarrier&) = delete;

  // Waits for `size` threads; true on all of them if `flag` was true on one. REQUIRES: threads that come with another
  // size, or that have not been here before, have met those that have since (see split() in proto/coop.h).
  bool arrive_and_wait(bool flag, int size) noexcept {
    if (size == 1) return flag;
    // The turn cannot end before this thread has arrived, so a relaxed load sees the turn that it takes part in.
    const uint64_t turn = proto::load_relaxed(&turn_);
    const uint32_t mine = kOne + (flag ? kFlag : 0u);
    // acq_rel: releases what this thread wrote to the last one to arrive, which acquires it from all.
    const uint32_t arrived = proto::fetch_add_acq_rel(&arrived_, mine) + mine;
    if ((arrived & (kFlag - 1)) == static_cast<uint32_t>(size)) return end_turn(turn, arrived >= kFlag);
    uint64_t now;
    // acquire: partner of the release in end_turn(). The answer of this turn stays readable until this thread
    // arrives at the next one.
    while ((now = proto::load_acquire(&turn_)) >> 1 == turn >> 1) proto::pause();
    return now & 1;
  }

 private:
  static constexpr uint32_t kOne = 1, kFlag = 1u << 16;

  bool end_turn(uint64_t turn, bool answer) noexcept {
    proto::store_relaxed(&arrived_, 0u);  // before turn_: nobody arrives at the next turn earlier
    proto::store_release(&turn_, (turn | 1) + 1 + (answer ? 1u : 0u));
    return answer;
  }

  uint32_t arrived_ = 0;  // low half: threads that have arrived; high half: those whose flag was true
  uint64_t turn_ = 0;     // number of turns ended, shifted by one; bit 0: the answer of the last
};

// Memory that the threads of one block share.
struct BlockMemory {
  BlockBarrier barriers[proto::kBarriers];
  alignas(128) uint8_t shared[proto::kSharedBytes];
};

}  // namespace emu

struct EmuBlock {
  int block, n_blocks;          // this block of the launch
  int thread, n_threads;        // this thread of the block
  emu::BlockBarrier* barriers;  // kBarriers: of the block, of its parts, and of the leads of these
  void* shared;                 // kSharedBytes, for the kernel
};

namespace emu {

class ThreadBlockPart {
 public:
  using Lead = ThreadBlockPart;
  ThreadBlockPart(const EmuBlock& block, const proto::WarpRun& run, BlockBarrier& barrier) noexcept
      : run_(run), rank_(block.thread - run.first), barrier_(&barrier) {}
  ThreadBlockPart(const EmuBlock& block, const proto::WarpRun& run) noexcept
      : ThreadBlockPart(block, run, block.barriers[1 + run.group]) {}
  int group() const { return run_.group; }
  int rank() const { return rank_; }
  int size() const { return run_.size; }
  void sync() const { barrier_->arrive_and_wait(false, run_.size); }
  bool any(bool flag) const { return barrier_->arrive_and_wait(flag, run_.size); }
  ThreadBlockPart lead(int n) const noexcept {
    ThreadBlockPart part = *this;
    part.run_.size = n;
    if (n != run_.size) part.barrier_ += proto::kLeadBarriers;
    return part;
  }

 private:
  proto::WarpRun run_;
  int rank_;
  BlockBarrier* barrier_;
};

class ThreadBlock {
 public:
  using Lead = ThreadBlockPart;
  explicit ThreadBlock(const EmuBlock& block) noexcept : block_(block) {}
  int rank() const { return block_.thread; }
  int size() const { return block_.n_threads; }
  void sync() const { block_.barriers->arrive_and_wait(false, size()); }
  bool any(bool flag) const { return block_.barriers->arrive_and_wait(flag, size()); }
  ThreadBlockPart split(int n) const { return ThreadBlockPart(block_, proto::warp_run(rank(), size(), n)); }
  ThreadBlockPart lead(int n) const { return ThreadBlockPart(block_, {0, 0, size()}, *block_.barriers).lead(n); }

 private:
  const EmuBlock& block_;
};

}  // namespace emu
}  // namespace gpucoll::gpu
