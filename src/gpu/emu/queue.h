// A stream of the emulated device: an ordered queue of work, worked off by threads of the pool.
//
// While there is work, one thread drains the queue; it runs the first thread of a launch itself and starts the
// others. An empty queue has no thread.
// Thread safety: every function may be called from any thread. Ownership: shared_ptr, because a queue that was told
// to wait for another one must be able to look at it after that was destroyed, and because the draining thread
// leaves the queue after the last one who waited for it.
// Invariants: entries run one after another in the order they were put; every launch has blocks x threads threads.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <variant>
#include <vector>

#include "gpu/emu/block_limit.h"
#include "gpu/emu/pool.h"
#include "gpu/emu/thread_block.h"
#include "gpu/emu/work.h"

namespace gpucoll::gpu::emu {

class Queue : public std::enable_shared_from_this<Queue> {
 public:
  // device: with which it fails.
  explicit Queue(int device) : device_(device) {}
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;
  ~Queue();

  Status put(const Work& work);
  // Gets the threads that a launch needs, so that put() of one no wider does not fail.
  Status reserve(int threads);
  // Waits until what is in the queue now has ended.
  void synchronize();
  // Returns whether so many entries have ended.
  bool has_ended(uint64_t count);
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
    uint64_t turn = 0;               // of BlockLimit
    std::deque<BlockMemory> memory;  // one a block; a deque, as they do not move
    std::vector<Thread> workers;
    std::atomic<int> running{0};

    void shape(Queue* owner, int n_blocks, int n_threads);
  };
  using LaunchPointer = std::unique_ptr<Launch>;
  // The rest of the work once it has been put: an event to be waited for is a mark by then.
  using Entry = std::variant<LaunchPointer, Copy, WriteValue, WaitValue, Mark, Keep>;

  Status put_one(const KernelLaunch& launch);
  Status put_one(const Copy& copy) { return put_entry(copy); }
  Status put_one(const WriteValue& write) { return put_entry(write); }
  Status put_one(const WaitValue& wait) { return put_entry(wait); }
  Status put_one(const RecordEvent& record);
  Status put_one(const WaitEvent& wait) { return put_mark(wait.event->mark()); }
  Status put_one(const WaitQueue& wait) { return put_mark(wait.other->mark()); }
  Status put_one(const Keep& keep) { return put_entry(keep); }
  Status put_mark(Mark mark);
  Status put_entry(Entry entry);
  Mark mark();
  Status reserve_more(int threads);  // REQUIRES: lock held
  void push(Entry entry);            // REQUIRES: lock held, at least one thread reserved
  void wait_until(uint64_t count);
  LaunchPointer take_spare();

  static void drain(void* self);
  static void run_thread(void* thread);
  LaunchPointer run(Entry entry);
  void run_launch(Launch& launch);
  void drop_launch(Launch& launch);
  void finish(Launch& launch);

  const int device_;
  std::mutex mutex_;
  std::condition_variable progress_;  // an entry has ended, the last thread of a launch, or the draining
  std::deque<Entry> entries_;         // those that have not begun
  std::vector<LaunchPointer> spare_;
  uint64_t put_ = 0, ended_ = 0;
  bool active_ = false;
  std::shared_ptr<Queue> self_;  // set while active_: the draining thread's share
  Task drain_task_;
  int reserved_ = 0;
};

}  // namespace gpucoll::gpu::emu
