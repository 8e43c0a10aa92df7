// The threads of the emulated device: one pool for all streams of the process.
//
// Kernels wait for each other, so a task that is started must get a thread of its own at once. A stream therefore
// reserves as many threads as its widest launch needs before it starts any; threads are made then, and never in the
// steady state. Idle threads sleep.
// Thread safety: every function may be called from any thread. Ownership: the pool and its threads are never
// destroyed: at exit some may be inside a kernel that waits for a peer that will not come, and joining them would
// hang. Invariant: threads >= reserved >= tasks started and not ended.
// fork(): the child has no such threads; it must not use the device.
#pragma once
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <vector>

#include "base/status.h"

namespace gpucoll::gpu::emu {

// Work for one thread. Owned by who starts it, until run() has been entered.
struct Task {
  void (*run)(void* arg) = nullptr;
  void* arg = nullptr;
  Task* next = nullptr;
};

class Pool {
 public:
  static Pool& instance();

  Status reserve(int threads);
  void unreserve(int threads) noexcept;
  // REQUIRES: within what was reserved.
  void start(Task* task) noexcept;
  int threads() const;
  // Returns whether all tasks that have been started have ended, or wait: nothing goes on by itself then. For tests.
  bool rests() const;

  // Tells, while it lives, that the task of its thread waits for something else: for other tasks, or a word.
  class Waiting {
   public:
    Waiting() noexcept;
    ~Waiting();
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;
  };

 private:
  struct Sleeper {
    std::condition_variable wake;
    Task* task = nullptr;
  };

  void serve();
  Status add_thread();
  Task* next_task(Sleeper& me, std::unique_lock<std::mutex>& lock);

  mutable std::mutex mutex_;
  std::vector<Sleeper*> idle_;
  // Tasks whose thread is still on its way back from its last one.
  Task* first_ = nullptr;
  Task* last_ = nullptr;
  int threads_ = 0;
  int reserved_ = 0;
  int running_ = 0;  // tasks that have been started, and have not ended
  std::atomic<int> waiting_{0};
};

}  // namespace gpucoll::gpu::emu
