// The launcher on the emulated device, with kernels that only look at their plans: order over streams, room in the work
// FIFO, captures, faults.
#include "core/launcher.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "gpu/emu/crew.h"

namespace gpucoll::core {
namespace {

gpu::Device& device() { return **gpu::emu_platform().open(0); }
gpu::Stream new_stream() {
  auto stream = device().create_stream();
  EXPECT_TRUE(stream);
  return *stream;
}

// What the kernels tell: they find it by the first item's `send`.
struct Log {
  std::mutex mutex;
  std::vector<uint64_t> counts;  // of all items of all launches, in the order of the launches
  std::atomic<int> running{0}, most_running{0};
  std::atomic<bool> gate{true};  // launches end only while it is open
  size_t size() {
    std::lock_guard lock(mutex);
    return counts.size();
  }
};

// One block of one thread does it all; the others leave.
void look(const gpu::EmuBlock& block, const proto::Plan& plan) {
  if (block.block != 0 || block.thread != 0) return;
  const proto::WorkItem* items = plan.items ? plan.items : plan.own_items();
  Log& log = *static_cast<Log*>(const_cast<void*>(items[0].collective.send));
  if (log.running.fetch_add(1) > 0) log.most_running = 2;
  while (!log.gate.load()) proto::pause();
  {
    std::lock_guard lock(log.mutex);
    for (uint32_t i = 0; i < plan.n_items; ++i) log.counts.push_back(items[i].collective.count);
  }
  log.running.fetch_sub(1);
  if (plan.done_word) __atomic_store_n(plan.done_word, ++plan.comm->counters.done, __ATOMIC_RELEASE);
}
const gpu::Kernel kLook = {"look", nullptr, look};

struct LauncherTest : ::testing::Test {
  void SetUp() override {
    auto block = device().allocate_host(sizeof(uint64_t));
    ASSERT_TRUE(block);
    words = *block;
    ASSERT_TRUE(device().prepare(kLook));
    LaunchContext context{
        device(), fault, 0, &kLook, &comm, static_cast<uint64_t*>(words.host), static_cast<uint64_t*>(words.kernel),
        &entered};
    auto created = Launcher::create(context);
    ASSERT_TRUE(created);
    launcher = *std::move(created);
    shape.emulated = true;
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
      task.kernel = &kLook;
      task.send = &log;
      task.count = next++;
      task.element_bytes = 1;
      task.stream = streams[i % streams.size()];
      queue.add(task);
    }
    return queue;
  }
  void launch(const TaskQueue& queue) {
    CommShape now = shape;
    now.capturing = *Launcher::capture_of(device(), queue.streams) != 0;
    ASSERT_TRUE(launcher->begin(queue, now));
    for (;;) {
      auto all = launcher->advance();
      ASSERT_TRUE(all) << all.status().what();
      if (*all) return;
      proto::pause();
    }
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
  std::unique_ptr<Launcher> launcher;
  CommShape shape;
  Log log;
  uint64_t next = 1;
};

TEST_F(LauncherTest, LaunchesFollowEachOtherOverStreams) {
  const gpu::Stream a = new_stream(), b = new_stream(), c = new_stream();
  const std::vector<std::vector<gpu::Stream>> groups = {{a}, {b}, {b}, {nullptr}, {a, b}, {c, b, a}, {nullptr, c}};
  for (int round = 0; round < 20; ++round)
    for (auto& streams : groups) launch(queue_of(streams.size(), streams));
  for (gpu::Stream stream : {a, b, c}) ASSERT_TRUE(device().synchronize(stream));
  ASSERT_TRUE(device().synchronize(nullptr));
  expect_all_in_order();
  EXPECT_EQ(launcher->launched(), 140u);
  EXPECT_EQ(entered, 140u);
  EXPECT_EQ(*static_cast<uint64_t*>(words.host), 140u);
}

TEST_F(LauncherTest, OtherStreamsOfAGroupWaitForIt) {
  const gpu::Stream a = new_stream(), b = new_stream();
  log.gate = false;
  launch(queue_of(2, {a, b}));
  // The done word, too: whoever comes last has its value there.
  ASSERT_TRUE(device().write_value(b, static_cast<uint64_t*>(words.kernel), 77));
  proto::pause();
  log.gate = true;
  for (gpu::Stream stream : {a, b}) ASSERT_TRUE(device().synchronize(stream));
  EXPECT_EQ(__atomic_load_n(static_cast<uint64_t*>(words.host), __ATOMIC_ACQUIRE), 77u);
  expect_all_in_order();
}

TEST_F(LauncherTest, WaitsForAllStreamsOfAGroup) {
  const gpu::Stream a = new_stream(), b = new_stream();
  auto block = device().allocate_host(sizeof(uint64_t));
  ASSERT_TRUE(block);
  ASSERT_TRUE(device().wait_value(b, static_cast<uint64_t*>(block->kernel), 1, nullptr));
  launch(queue_of(2, {a, b}));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(log.size(), 0u);
  __atomic_store_n(static_cast<uint64_t*>(block->host), uint64_t{1}, __ATOMIC_RELEASE);
  ASSERT_TRUE(device().synchronize(a));
  expect_all_in_order();
  ASSERT_TRUE(device().synchronize(b));
  device().release_host(*block);
}

TEST_F(LauncherTest, WaitsForRoomWithoutBlocking) {
  const gpu::Stream a = new_stream();
  log.gate = false;
  const TaskQueue queue = queue_of(20000, {a});
  ASSERT_TRUE(launcher->begin(queue, shape));
  auto all = launcher->advance();
  ASSERT_TRUE(all);
  EXPECT_FALSE(*all);
  const uint64_t before = launcher->launched();
  EXPECT_GT(before, 1u);
  ASSERT_FALSE(*launcher->advance());
  EXPECT_EQ(launcher->launched(), before);
  log.gate = true;
  while (!*all) {
    all = launcher->advance();
    ASSERT_TRUE(all);
    proto::pause();
  }
  ASSERT_TRUE(device().synchronize(a));
  expect_all_in_order();
}

TEST_F(LauncherTest, AFaultEndsTheWaitForRoom) {
  const gpu::Stream a = new_stream();
  log.gate = false;
  const TaskQueue queue = queue_of(20000, {a});
  ASSERT_TRUE(launcher->begin(queue, shape));
  ASSERT_FALSE(*launcher->advance());
  fault.raise(Status::error(Code::aborted, "enough"));
  auto all = launcher->advance();
  ASSERT_FALSE(all);
  EXPECT_EQ(all.status().code(), Code::aborted);
  log.gate = true;
  ASSERT_TRUE(device().synchronize(a));
}

TEST_F(LauncherTest, StreamsOfAGroupAreAllCapturedOrNone) {
  const gpu::Stream a = new_stream(), b = new_stream();
  ASSERT_TRUE(device().begin_capture(a));
  EXPECT_NE(*Launcher::capture_of(device(), {a}), 0u);
  for (auto& streams : std::vector<std::vector<gpu::Stream>>{{a, b}, {b, a}, {nullptr, a}}) {
    auto capture = Launcher::capture_of(device(), streams);
    ASSERT_FALSE(capture);
    EXPECT_EQ(capture.status().code(), Code::invalid_usage);
  }
  ASSERT_TRUE(device().stream_wait(b, a));
  EXPECT_EQ(*Launcher::capture_of(device(), {a, b}), *Launcher::capture_of(device(), {a}));
  ASSERT_TRUE(device().stream_wait(a, b));
  auto graph = device().end_capture(a);
  ASSERT_TRUE(graph);
  ASSERT_TRUE(device().destroy_graph(*graph));
}

// Groups on two streams in one capture, one of them with more items than fit into the arguments, replayed among eager
// launches on other streams.
TEST_F(LauncherTest, GraphsAndLaunchesFollowEachOther) {
  const gpu::Stream a = new_stream(), b = new_stream(), c = new_stream();
  ASSERT_TRUE(device().begin_capture(a));
  ASSERT_TRUE(device().stream_wait(b, a));  // from here on, only the launcher keeps the two in order
  launch(queue_of(3, {a}));
  launch(queue_of(500, {b}));
  ASSERT_TRUE(device().stream_wait(a, b));
  launch(queue_of(2, {b, a}));
  ASSERT_TRUE(device().stream_wait(a, b));
  auto graph = device().end_capture(a);
  ASSERT_TRUE(graph) << graph.status().what();
  EXPECT_EQ(launcher->launched(), 0u);
  EXPECT_EQ(log.size(), 0u);
  std::vector<uint64_t> wanted;
  for (int round = 0; round < 30; ++round) {
    ASSERT_TRUE(device().launch_graph(*graph, round % 2 ? a : c));
    for (uint64_t i = 1; i <= 505; ++i) wanted.push_back(i);
    wanted.push_back(next);
    launch(queue_of(1, {round % 3 ? b : c}));
  }
  for (gpu::Stream stream : {a, b, c}) ASSERT_TRUE(device().synchronize(stream));
  EXPECT_EQ(log.counts, wanted);
  EXPECT_LE(log.most_running, 1);
  EXPECT_EQ(launcher->launched(), 30u);
  ASSERT_TRUE(device().destroy_graph(*graph));
}

TEST_F(LauncherTest, GraphAndLauncherEndInAnyOrder) {
  const gpu::Stream a = new_stream();
  std::vector<gpu::Graph> graphs;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(device().begin_capture(a));
    launch(queue_of(300, {a}));
    auto graph = device().end_capture(a);
    ASSERT_TRUE(graph);
    ASSERT_TRUE(device().launch_graph(*graph, a));
    graphs.push_back(*graph);
  }
  ASSERT_TRUE(device().destroy_graph(graphs[1]));  // it may still run
  ASSERT_TRUE(device().synchronize(a));
  expect_all_in_order();
  launcher.reset();
  ASSERT_TRUE(device().destroy_graph(graphs[0]));
  ASSERT_TRUE(device().destroy_graph(graphs[2]));
  release_unused();
}

}  // namespace
}  // namespace gpucoll::core
