// A block of CPU threads on the emulated device, as kernels see it: EmuBlock says who a thread is, Crew is the Coop
// over its block.
//
// Thread safety: one EmuBlock a thread; the barrier is shared by the threads of one block. Ownership: the pool that
// runs the block owns the barrier and outlives the kernel. Invariant: every thread of the block calls sync() and
// any() in the same order. Waiting threads yield, so that two cores carry many blocks.
#pragma once
#include <cstdint>

#include "proto/platform.h"

namespace gpucoll::gpu {
namespace emu {

// A reusable barrier that also ORs one bit of each thread. Two words, no fence: ThreadSanitizer follows it.
class CrewBarrier {
 public:
  explicit CrewBarrier(int size) noexcept : size_(static_cast<uint32_t>(size)) {}
  CrewBarrier(const CrewBarrier&) = delete;
  CrewBarrier& operator=(const CrewBarrier&) = delete;

  // Waits for all threads of the block; true on all of them if `flag` was true on one.
  bool arrive_and_wait(bool flag) noexcept {
    if (size_ == 1) return flag;
    // The turn cannot end before this thread has arrived, so a relaxed load sees the turn that it takes part in.
    const uint64_t turn = proto::load_relaxed(&turn_);
    const uint32_t mine = kOne + (flag ? kFlag : 0u);
    // acq_rel: releases what this thread wrote to the last one to arrive, which acquires it from all.
    const uint32_t arrived = proto::fetch_add_acq_rel(&arrived_, mine) + mine;
    if ((arrived & (kFlag - 1)) == size_) return end_turn(turn, arrived >= kFlag);
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

  uint32_t size_;
  uint32_t arrived_ = 0;  // low half: threads that have arrived; high half: those whose flag was true
  uint64_t turn_ = 0;     // number of turns ended, shifted by one; bit 0: the answer of the last
};

}  // namespace emu

struct EmuBlock {
  int block, n_blocks;    // this block of the launch
  int thread, n_threads;  // this thread of the block
  emu::CrewBarrier* barrier;
};

namespace emu {

class Crew {
 public:
  explicit Crew(const EmuBlock& block) noexcept : block_(block) {}
  int rank() const { return block_.thread; }
  int size() const { return block_.n_threads; }
  void sync() const { block_.barrier->arrive_and_wait(false); }
  bool any(bool flag) const { return block_.barrier->arrive_and_wait(flag); }

 private:
  const EmuBlock& block_;
};

}  // namespace emu
}  // namespace gpucoll::gpu
