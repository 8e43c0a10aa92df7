// Communicators whose kernels do nothing: for tests of their lives.
#pragma once
#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "core/comm/communicator.h"
#include "gpu/device.h"
#include "gpu/emu/thread_block.h"
#include "wireup_ranks.h"

namespace gpucoll_test {

// Does nothing but to tell that it is done.
inline void do_nothing(const gpu::EmuBlock& block, const proto::Plan& plan) {
  if (block.block != 0 || block.thread != 0 || !plan.done_word) return;
  __atomic_store_n(plan.done_word, ++plan.comm->counters.done, __ATOMIC_RELEASE);
}
inline const gpu::Kernel kNone = {"none", nullptr, do_nothing};
inline gpu::Device& emulated() { return **gpu::emu_platform().open(0); }

inline std::unique_ptr<core::Communicator> communicator_of(gpu::Device& device, net::Bootstrap& bootstrap) {
  auto made = core::Communicator::create(device, {{&kNone, 1}, &kNone, &kNone}, bootstrap);
  EXPECT_TRUE(made) << made.status().what();
  return *std::move(made);
}

// Makes one of a single rank.
inline std::unique_ptr<core::Communicator> communicator_on(gpu::Device& device) {
  ThreadsExchange alone(1);
  ThreadsBootstrap bootstrap(alone, 0, 1);
  return communicator_of(device, bootstrap);
}

inline core::TaskQueue one_task(gpu::Stream stream) {
  core::CollectiveTask task{};
  task.function = core::Function::all_reduce;
  task.kernels.plan = &kNone;
  task.count = task.element_bytes = 1;
  task.stream = stream;
  core::TaskQueue queue;
  queue.add(task);
  return queue;
}

// A stream that waits until it is let go.
class HeldStream {
 public:
  HeldStream() : word_(*emulated().allocate_host(sizeof(uint64_t))), stream_(*emulated().create_stream()) {
    EXPECT_TRUE(emulated().wait_value(stream_, static_cast<uint64_t*>(word_.kernel), 1, nullptr));
  }
  ~HeldStream() {
    EXPECT_TRUE(emulated().destroy_stream(stream_));
    emulated().release_host(word_);
  }
  HeldStream(const HeldStream&) = delete;
  HeldStream& operator=(const HeldStream&) = delete;
  gpu::Stream get() const { return stream_; }
  // Returns once all of it has run.
  void let_go() {
    __atomic_store_n(static_cast<uint64_t*>(word_.host), uint64_t{1}, __ATOMIC_RELEASE);
    EXPECT_TRUE(emulated().synchronize(stream_));
  }

 private:
  const gpu::HostBlock word_;
  const gpu::Stream stream_;
};

}  // namespace gpucoll_test
