// A launcher on the emulated device, with kernels that only look at their plans.
#pragma once
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "core/launch/launcher.h"
#include "gpu/emu/pool.h"
#include "gpu/emu/thread_block.h"

namespace gpucoll::core {

inline gpu::Device& device() { return **gpu::emu_platform().open(0); }
inline gpu::Stream new_stream() {
  auto stream = device().create_stream();
  EXPECT_TRUE(stream);
  return *stream;
}

// What the kernels tell: they find it by the first item's `send`.
struct Log {
  std::mutex mutex;
  std::vector<uint64_t> counts;  // of all items of all launches, in the order of the launches
  uint32_t resident_ns = 0;      // of the last launch
  std::atomic<int> running{0}, most_running{0};
  std::atomic<bool> gate{true};  // launches end only while it is open
  size_t size() {
    std::lock_guard lock(mutex);
    return counts.size();
  }
};

// One block of one thread does it all; the others leave.
inline void look(const gpu::EmuBlock& block, const proto::Plan& plan) {
  if (block.block != 0 || block.thread != 0) return;
  const proto::WorkItem* items = plan.items ? plan.items : plan.own_items();
  Log& log = *static_cast<Log*>(const_cast<void*>(items[0].collective.send));
  if (log.running.fetch_add(1) > 0) log.most_running = 2;
  while (!log.gate.load()) proto::pause();
  {
    std::lock_guard lock(log.mutex);
    for (uint32_t i = 0; i < plan.n_items; ++i) log.counts.push_back(items[i].collective.count);
    log.resident_ns = plan.resident_ns;
  }
  log.running.fetch_sub(1);
  if (!plan.done_word) return;
  ++plan.comm->counters.done;
  if (!plan.tells_seldom) __atomic_store_n(plan.done_word, plan.comm->counters.done, __ATOMIC_RELEASE);
}
inline const gpu::Kernel kLook = {"look", nullptr, look}, kSame = {"same", nullptr, look};

struct LauncherTest : ::testing::Test {
  void SetUp() override {
    auto block = device().allocate_host(sizeof(uint64_t));
    ASSERT_TRUE(block);
    words = *block;
    for (const gpu::Kernel* kernel : {&kLook, &kSame}) ASSERT_TRUE(device().prepare(*kernel));
    make_launcher(nullptr, nullptr);
    shape.emulated = true;
  }
  // told: not null: launches tell seldom, and their end is known from it.
  void make_launcher(UserBufferMarker* direct, ResidentKernel* resident, gpu::Device& on = device(),
                     HostWords* told = nullptr) {
    LaunchContext context{on,
                          fault,
                          0,
                          &kLook,
                          &comm,
                          static_cast<uint64_t*>(words.host),
                          static_cast<uint64_t*>(words.kernel),
                          &entered,
                          direct,
                          resident};
    context.graphs_told = &graphs;
    context.hold = &hold;
    context.seldom = told;
    if (told) {
      context.done = &(*told)->done;
      context.done_kernel = &told->in_kernels()->done;
    }
    auto created = Launcher::create(context);
    ASSERT_TRUE(created);
    launcher = *std::move(created);
  }
  void TearDown() override {
    launcher.reset();
    device().release_host(words);
  }
  // n collectives of one channel, numbered from `next`.
  TaskQueue queue_of(size_t n, std::vector<gpu::Stream> streams) {
    TaskQueue queue;
    for (size_t i = 0; i < n; ++i) {
      CollectiveTask task{};
      task.function = Function::all_reduce;
      task.kernels.plan = &kLook;
      task.send = &log;
      task.count = next++;
      task.element_bytes = 1;
      task.stream = streams[i % streams.size()];
      queue.add(task);
    }
    return queue;
  }
  // Returns a graph with one launch of more items than a kernel carries along.
  gpu::Graph captured(gpu::Device& by, gpu::Stream stream) {
    EXPECT_TRUE(by.begin_capture(stream));
    launch(queue_of(1000, {stream}));
    const auto graph = by.end_capture(stream);
    EXPECT_TRUE(graph);
    return *graph;
  }
  void launch(const TaskQueue& queue, bool waits = false) {
    CommProperties now = shape;
    now.capturing = *Launcher::capture_of(device(), queue.streams) != 0;
    ASSERT_TRUE(launcher->begin(queue, now, nullptr, {}, waits));
    for (;;) {
      auto all = launcher->advance();
      ASSERT_TRUE(all) << all.status().what();
      if (*all) break;
      proto::pause();
    }
    if (!rests || now.capturing) return;
    for (gpu::Stream stream : queue.streams) ASSERT_TRUE(device().synchronize(stream));
  }
  void expect_all_in_order() {
    std::vector<uint64_t> wanted;
    for (uint64_t i = 1; i < next; ++i) wanted.push_back(i);
    EXPECT_EQ(log.counts, wanted);
    EXPECT_LE(log.most_running, 1) << "launches of one communicator side by side";
  }

  Fault fault;
  gpu::HostBlock words;
  proto::DeviceComm comm = {};
  uint64_t entered = 0;
  proto::GraphWords graphs = {};
  GraphHold hold;
  std::unique_ptr<Launcher> launcher;
  CommProperties shape;
  Log log;
  uint64_t next = 1;
  bool rests = false;  // each launch has ended when launch() returns
};

}  // namespace gpucoll::core
