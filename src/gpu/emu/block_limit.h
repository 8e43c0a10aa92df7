// How many blocks of kernels run at once, in the order of the launches, where the parameter emu_blocks says so: a GPU
// starts a kernel when its blocks have room beside those of the kernels before it, and those behind wait meanwhile.
// Ranks whose kernels wait for each other can so show that they were launched in different orders.
//
// Thread safety: every function may be called from any thread. REQUIRES: who takes a turn enters and leaves.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "base/params.h"
#include "gpu/emu/pool.h"

namespace gpucoll::gpu::emu {

// Limits the blocks of all emulated devices of this process.
class BlockLimit {
 public:
  static BlockLimit& instance() {
    static BlockLimit* const limit = new BlockLimit(static_cast<int>(params().emu_blocks));  // never destroyed
    return *limit;
  }
  // 0: none.
  explicit BlockLimit(int blocks) : blocks_(blocks) {}

  // The place of a launch among all.
  uint64_t take_turn() {
    if (blocks_ == 0) return 0;
    std::lock_guard lock(mutex_);
    return taken_++;
  }
  // Waits until all launches before have begun, and there is room; a launch of more blocks than the limit runs alone.
  void enter(uint64_t turn, int blocks) {
    if (blocks_ == 0) return;
    std::unique_lock lock(mutex_);
    await_room(lock, turn, blocks);
    ++entered_;
    running_ += blocks;
    changed_.notify_all();
  }
  void leave(int blocks) {
    if (blocks_ == 0) return;
    std::lock_guard lock(mutex_);
    running_ -= blocks;
    changed_.notify_all();
  }

 private:
  void await_room(std::unique_lock<std::mutex>& lock, uint64_t turn, int blocks) {
    const auto is_next = [&] { return entered_ == turn && (running_ == 0 || running_ + blocks <= blocks_); };
    if (is_next()) return;
    const Pool::Waiting waiting;
    changed_.wait(lock, is_next);
  }

  const int blocks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t taken_ = 0, entered_ = 0;
  int running_ = 0;
};

}  // namespace gpucoll::gpu::emu
