// A stream of the emulated device: an ordered queue of launches and waits, worked off by threads of the pool.
//
// While there is work, one thread drains the queue; it runs the first thread of a launch itself and starts the
// others. An empty queue has no thread.
// Thread safety: every function may be called from any thread. Ownership: shared_ptr, because a queue that was told
// to wait for another one must be able to look at it after that was destroyed, and because the draining thread
// leaves the queue after the last one who waited for it.
// Invariants: launches run one after another in the order they were put; every launch has blocks x threads threads.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "gpu/device.h"
#include "gpu/emu/crew.h"
#include "gpu/emu/pool.h"

namespace gpucoll::gpu::emu {

using KernelFunction = void (*)(const EmuBlock&, const proto::Plan&);

class Queue : public std::enable_shared_from_this<Queue> {
 public:
  Queue() = default;
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;
  ~Queue();

  Status launch(KernelFunction function, const proto::Plan& plan, int blocks, int threads);
  // What is put into this queue later waits for what is in `other` now.
  Status wait_for(const std::shared_ptr<Queue>& other);
  // Waits until what is in the queue now has ended.
  void synchronize();
  // Waits for all that is in the queue and gives its threads back. Nothing may be put into it any more.
  void close();

 private:
  // One kernel launch, kept with its plan and blocks' memory for the next one.
  struct Launch {
    struct Thread {
      Task task;
      Launch* launch = nullptr;
      EmuBlock place{};
    };
    KernelFunction function = nullptr;
    proto::Plan plan{};
    Queue* queue = nullptr;
    int blocks = 0, threads = 0;
    std::deque<BlockMemory> memory;  // one a block; a deque, as they do not move
    std::vector<Thread> crew;
    std::atomic<int> running{0};

    void shape(Queue* owner, int n_blocks, int n_threads);
  };
  struct Entry {
    std::unique_ptr<Launch> launch;  // null: wait until `other` has ended `until` entries
    std::shared_ptr<Queue> other;
    uint64_t until = 0;
  };

  Status reserve(int threads);  // REQUIRES: lock held
  void put(Entry entry);        // REQUIRES: lock held, at least one thread reserved
  void wait_until(uint64_t count);
  std::unique_ptr<Launch> take_spare();
  static void drain(void* self);
  static void run_thread(void* thread);
  void run(Entry& entry);
  void run_launch(Launch& launch);
  void finish(Launch& launch);

  std::mutex mutex_;
  std::condition_variable progress_;  // an entry has ended, the last thread of a launch, or the draining
  std::deque<Entry> entries_;         // the first one is being run while active_
  std::vector<std::unique_ptr<Launch>> spare_;
  uint64_t put_ = 0, ended_ = 0;
  bool active_ = false;
  std::shared_ptr<Queue> self_;  // set while active_: the draining thread's share
  Task drain_task_;
  int reserved_ = 0;
};

}  // namespace gpucoll::gpu::emu
