// The launcher: order over streams, room in the work FIFO, captures, faults.
#include <array>
#include <chrono>
#include <thread>

#include "../forwarding_device.h"
#include "../in_flight.h"
#include "launcher_fixture.h"

namespace gpucoll::core {
namespace {

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

// A device on which the program destroys a stream, and gets its handle for another one. Counts waits for events.
class NewStreams : public gpucoll_test::ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  uint64_t stream_id(Stream) noexcept override { return id; }
  Status wait_event(Stream stream, Event event) override {
    ++waits;
    return ForwardingDevice::wait_event(stream, event);
  }
  uint64_t id = 1;
  int waits = 0;
};

TEST_F(LauncherTest, TellsAStreamFromAnotherOneWithItsHandle) {
  NewStreams streams(device());
  make_launcher(nullptr, nullptr, streams);
  const gpu::Stream a = new_stream();
  log.gate = false;
  launch(queue_of(1, {a}));
  launch(queue_of(1, {a}));
  EXPECT_EQ(streams.waits, 0);
  streams.id = 2;
  launch(queue_of(1, {a}));
  EXPECT_EQ(streams.waits, 1);
  launch(queue_of(1, {a}));
  EXPECT_EQ(streams.waits, 1);
  streams.id = 0;  // nobody knows
  launch(queue_of(1, {a}));
  launch(queue_of(1, {a}));
  EXPECT_EQ(streams.waits, 3);
  log.gate = true;
  ASSERT_TRUE(device().synchronize(a));
  expect_all_in_order();
  launcher.reset();  // before the device
}

TEST_F(LauncherTest, WaitsForAllStreamsOfAGroup) {
  const gpu::Stream a = new_stream(), b = new_stream();
  auto block = device().allocate_host(sizeof(uint64_t));
  ASSERT_TRUE(block);
  ASSERT_TRUE(device().wait_value(b, static_cast<uint64_t*>(block->kernel), 1, nullptr));
  launch(queue_of(2, {a, b}));
  while (!gpu::emu::Pool::instance().rests()) std::this_thread::yield();
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

// Memory is freed and closed only while nothing is in flight: the driver would wait for it, and hold up other launches.
TEST_F(LauncherTest, WhatRunsIsInFlightAfterAFaultToo) {
  const gpu::Stream a = new_stream();
  log.gate = false;
  launch(queue_of(1, {a}));
  EXPECT_TRUE(launcher->in_flight());
  fault.raise(Status::error(Code::aborted, "enough"));
  EXPECT_TRUE(launcher->in_flight());
  log.gate = true;
  ASSERT_TRUE(device().synchronize(a));
  EXPECT_FALSE(launcher->in_flight());
}

TEST_F(LauncherTest, GraphsAreInFlightOnceTheyHaveBegun) {
  EXPECT_FALSE(launcher->in_flight());
  graphs.begun = 1;
  EXPECT_TRUE(launcher->in_flight());
  graphs.ended = 1;
  EXPECT_FALSE(launcher->in_flight());
}

// A launcher whose kernels never tell.
struct SeldomTest : LauncherTest {
  void SetUp() override {
    LauncherTest::SetUp();
    ASSERT_TRUE(told.allocate());
    make_launcher(nullptr, nullptr, device(), &told);
  }
  gpu::Graph small_graph(gpu::Stream stream) {
    EXPECT_TRUE(device().begin_capture(stream));
    launch(queue_of(1, {stream}));
    const auto graph = device().end_capture(stream);
    EXPECT_TRUE(graph);
    return *graph;
  }
  HostWords told{device()};
};

TEST_F(SeldomTest, AnEventTellsThatLaunchesHaveEnded) {
  const gpu::Stream a = new_stream(), b = new_stream();
  log.gate = false;
  for (const gpu::Stream stream : {a, b, a}) launch(queue_of(1, {stream}));
  EXPECT_EQ(told.done(), 0u);
  EXPECT_TRUE(launcher->in_flight());
  EXPECT_FALSE(launcher->rests());
  log.gate = true;
  ASSERT_TRUE(device().synchronize(a));
  EXPECT_EQ(told->done, 0u);
  EXPECT_EQ(told.done(), 3u);
  EXPECT_FALSE(launcher->in_flight());
  EXPECT_TRUE(launcher->rests());
  launcher.reset();
  EXPECT_EQ(told.done(), 0u) << "asks for an event that is gone";
}

// The work FIFO has room for a part of it.
TEST_F(SeldomTest, LaunchesTellWhoseItemsTakeRoom) {
  const gpu::Stream a = new_stream();
  launch(queue_of(20000, {a}));
  ASSERT_TRUE(device().synchronize(a));
  EXPECT_GT(told->done, 0u);
  EXPECT_EQ(told.done(), launcher->launched());
  expect_all_in_order();
}

TEST_F(SeldomTest, LaunchesEndWhereAFaultKeepsOutTheRestOfTheirGroup) {
  constexpr size_t kKernels = 40;  // more than are launched at once
  static const std::vector<gpu::Kernel> kernels(kKernels, kLook);
  const gpu::Stream a = new_stream();
  TaskQueue queue = queue_of(kKernels, {a});
  for (size_t i = 0; i < kKernels; ++i) {
    ASSERT_TRUE(device().prepare(kernels[i]));
    queue.collectives[i].kernels.plan = &kernels[i];
  }
  ASSERT_TRUE(launcher->begin(queue, shape));
  auto all = launcher->advance();
  ASSERT_TRUE(all && !*all);
  fault.raise(Status::error(Code::aborted, "enough"));
  EXPECT_FALSE(launcher->advance());
  EXPECT_GT(launcher->launched(), 0u);
  ASSERT_TRUE(device().synchronize(a));
  EXPECT_EQ(told.done(), launcher->launched());
  EXPECT_FALSE(launcher->in_flight());
}

TEST_F(SeldomTest, GraphsWaitForLaunchesBeforeTheFirstCapture) {
  const gpu::Stream a = new_stream(), b = new_stream(), c = new_stream();
  log.gate = false;
  launch(queue_of(1, {a}));
  const gpu::Graph first = small_graph(b), second = small_graph(c);
  ASSERT_TRUE(device().launch_graph(second, c));
  ASSERT_TRUE(device().launch_graph(first, b));
  launch(queue_of(1, {a}));
  for (int looks = 0; looks < 300 && log.most_running < 2; ++looks)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // where a graph does not wait, it begins
  log.gate = true;
  for (gpu::Stream stream : {a, b, c}) ASSERT_TRUE(device().synchronize(stream));
  EXPECT_EQ(log.counts, (std::vector<uint64_t>{1, 3, 2, 4}));
  EXPECT_LE(log.most_running, 1);
  for (const gpu::Graph graph : {first, second}) ASSERT_TRUE(device().destroy_graph(graph));
}

TEST_F(SeldomTest, GraphsThatWaitDoNotKeepLaunchesFromHavingEnded) {
  const gpu::Stream a = new_stream(), b = new_stream();
  const gpu::Graph graph = small_graph(a);
  launch(queue_of(1, {a}));
  auto* const word = static_cast<uint64_t*>(words.kernel);
  *static_cast<uint64_t*>(words.host) = 0;
  ASSERT_TRUE(device().wait_value(b, word, 1, nullptr));
  ASSERT_TRUE(device().launch_graph(graph, b));
  ASSERT_TRUE(device().synchronize(a));
  EXPECT_EQ(told.done(), 1u);
  EXPECT_FALSE(launcher->in_flight());
  ASSERT_TRUE(device().write_value(a, word, 1));
  ASSERT_TRUE(device().synchronize(b));
  EXPECT_TRUE(launcher->rests());
  ASSERT_TRUE(device().destroy_graph(graph));
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

// Counts the pieces of host memory that are taken and given back.
class CountingDevice : public gpucoll_test::ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  Result<gpu::HostBlock> allocate_host(size_t bytes) override {
    ++taken;
    return ForwardingDevice::allocate_host(bytes);
  }
  void release_host(const gpu::HostBlock& block) noexcept override {
    ++released;
    ForwardingDevice::release_host(block);
  }
  int taken = 0, released = 0;
};

// The memory of two graphs that are gone is left: the next capture takes one piece of it.
struct LauncherGraphMemoryTest : LauncherTest {
  void SetUp() override {
    LauncherTest::SetUp();
    make_launcher(nullptr, nullptr, counting);
    stream = new_stream();
    release_unused();
  }
  void TearDown() override {
    launcher.reset();
    release_unused();
    LauncherTest::TearDown();
  }
  gpu::Graph capture() { return captured(counting, stream); }
  void destroy(gpu::Graph graph) { EXPECT_TRUE(counting.destroy_graph(graph)); }
  void leave_two() {
    const gpu::Graph one = capture(), other = capture();
    destroy(one);
    destroy(other);
  }
  CountingDevice counting{device()};
  gpu::Stream stream = nullptr;
};

TEST_F(LauncherGraphMemoryTest, GoesWhileNothingFlies) {
  gpucoll_test::FakeInFlight work;
  work.busy = true;
  leave_two();
  destroy(capture());
  EXPECT_EQ(counting.released, 0);
  work.busy = false;
  destroy(capture());
  EXPECT_EQ(counting.released, 1);
  launcher.reset();
  EXPECT_EQ(counting.released, 2);
}

// It may have been launched behind other work, and wait for a launch that would wait for this call.
TEST_F(LauncherGraphMemoryTest, StaysWhileAnotherOneMayBegin) {
  const gpu::Graph stays = capture();
  leave_two();
  destroy(capture());
  EXPECT_EQ(counting.released, 0);
  destroy(stays);
  destroy(capture());
  EXPECT_EQ(counting.released, 2);
}

// A program may leave a graph behind for ever, and its communicator not.
TEST_F(LauncherGraphMemoryTest, GoesBesideAGraphThatWaitsForNobody) {
  const gpu::Graph left_behind = capture();
  EXPECT_FALSE(Quiescence::instance().run_at_rest([] {}));
  EXPECT_TRUE(Quiescence::instance().run_if_idle([] {}));
  hold.end();
  EXPECT_TRUE(Quiescence::instance().run_at_rest([] {}));
  destroy(left_behind);
}

// A program may capture for ever while it has another graph.
TEST_F(LauncherGraphMemoryTest, IsUsedAgain) {
  const gpu::Graph stays = capture();
  for (int i = 0; i < 5; ++i) destroy(capture());
  EXPECT_EQ(counting.taken, 2);
  destroy(stays);
}

// Until the launches of a graph that is gone have ended.
TEST_F(LauncherGraphMemoryTest, IsNotUsedAgainTooEarly) {
  const gpu::Graph runs = capture();
  log.gate = false;
  EXPECT_TRUE(counting.launch_graph(runs, stream));
  destroy(runs);
  const gpu::Stream other = new_stream();
  const gpu::Graph later = captured(counting, other);
  log.gate = true;
  EXPECT_TRUE(counting.launch_graph(later, other));
  EXPECT_TRUE(counting.synchronize(stream));
  EXPECT_TRUE(counting.synchronize(other));
  expect_all_in_order();
  destroy(later);
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
