// The kinds of work that can be put into a stream of the emulated device. A Queue runs them; a Recording keeps them and
// puts them into queues again and again.
//
// Thread safety: plain data, but for Event, whose functions may be called from any thread. Ownership: addresses and
// events belong to the caller and outlive the work.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <variant>

#include "gpu/device.h"

namespace gpucoll::gpu::emu {

class Queue;
using KernelFunction = void (*)(const EmuBlock&, const proto::Plan&);

// A point in a queue: all that was put before it. Shared ownership, as the queue may be destroyed before somebody has
// seen that it got there. Without a queue: the beginning of time.
struct Mark {
  std::shared_ptr<Queue> queue;
  uint64_t until = 0;
};

class Event {
 public:
  Mark mark() const {
    std::lock_guard lock(mutex_);
    return mark_;
  }
  void set(Mark mark) {
    std::lock_guard lock(mutex_);
    std::swap(mark_, mark);  // the old one goes after the lock
  }

 private:
  mutable std::mutex mutex_;
  Mark mark_;
};

struct KernelLaunch {
  KernelFunction function;
  proto::Plan plan;
  int blocks, threads;
};
struct Copy {
  void* dst;
  const void* src;
  size_t bytes;
};
struct WriteValue {
  uint64_t* word;
  uint64_t value;
};
struct WaitValue {
  const uint64_t* word;
  uint64_t value;
  const uint32_t* abort;
};
struct RecordEvent {
  Event* event;
};
struct WaitEvent {
  Event* event;
};
// Waits for what is in the other queue when this is put.
struct WaitQueue {
  std::shared_ptr<Queue> other;
};
// Lets go of something when the queue gets there.
struct Keep {
  std::shared_ptr<void> what;
};

using Work = std::variant<KernelLaunch, Copy, WriteValue, WaitValue, RecordEvent, WaitEvent, WaitQueue, Keep>;

}  // namespace gpucoll::gpu::emu
