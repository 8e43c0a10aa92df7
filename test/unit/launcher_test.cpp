// The launcher on the emulated device, with kernels that only look at their plans: order over streams, room in the work
// FIFO, captures, faults, and what is kept of launches.
#include "core/launcher.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <thread>

#include "base/params.h"
#include "forwarding_device.h"
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
  uint32_t linger_ns = 0;        // of the last launch
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
    log.linger_ns = plan.linger_ns;
  }
  log.running.fetch_sub(1);
  if (plan.done_word) __atomic_store_n(plan.done_word, ++plan.comm->counters.done, __ATOMIC_RELEASE);
}
const gpu::Kernel kLook = {"look", nullptr, look}, kSame = {"same", nullptr, look};

struct LauncherTest : ::testing::Test {
  void SetUp() override {
    auto block = device().allocate_host(sizeof(uint64_t));
    ASSERT_TRUE(block);
    words = *block;
    for (const gpu::Kernel* kernel : {&kLook, &kSame}) ASSERT_TRUE(device().prepare(*kernel));
    make_launcher(nullptr, nullptr);
    shape.emulated = true;
  }
  void make_launcher(DirectMarker* direct, Lingering* lingering, gpu::Device& on = device()) {
    LaunchContext context{on,
                          fault,
                          0,
                          &kLook,
                          &comm,
                          static_cast<uint64_t*>(words.host),
                          static_cast<uint64_t*>(words.kernel),
                          &entered,
                          direct,
                          lingering};
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
      task.kernel = &kLook;
      task.send = &log;
      task.count = next++;
      task.element_bytes = 1;
      task.stream = streams[i % streams.size()];
      queue.add(task);
    }
    return queue;
  }
  void launch(const TaskQueue& queue, bool waits = false) {
    CommShape now = shape;
    now.capturing = *Launcher::capture_of(device(), queue.streams) != 0;
    ASSERT_TRUE(launcher->begin(queue, now, nullptr, {}, waits));
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

TEST_F(LauncherTest, KeepsWhatComesForTheThirdTime) {
  const gpu::Stream a = new_stream();
  const TaskQueue first = queue_of(2, {a}), second = queue_of(1, {a});
  std::vector<uint64_t> wanted;
  for (uint64_t round = 1; round <= 10; ++round) {
    launch(first);
    launch(second);
    wanted.insert(wanted.end(), {1, 2, 3});
    EXPECT_EQ(launcher->launched_kept(), round < KeptLaunches::kTimes ? 0 : 2 * (round + 1 - KeptLaunches::kTimes));
  }
  ASSERT_TRUE(device().synchronize(a));
  EXPECT_EQ(log.counts, wanted);
  EXPECT_EQ(launcher->launched(), 20u);
  EXPECT_EQ(*static_cast<uint64_t*>(words.host), 20u);
}

// Each of these is one of the group's own, or decides how it is planned.
TEST_F(LauncherTest, WhatDiffersIsNotTakenForTheSame) {
  const gpu::Stream a = new_stream(), b = new_stream();
  Log other_log;
  int element = 0;
  const TaskQueue collective = queue_of(1, {a});
  TaskQueue pairs;
  pairs.add_send(0, {&log, 5, a});
  pairs.add_recv(0, {&element, 5, a});
  using Change = std::function<void(TaskQueue&)>;
  const auto expect_all_seen = [&](const TaskQueue& base, const std::vector<Change>& changes) {
    for (int i = 0; i < 4; ++i) launch(base);
    for (size_t i = 0; i < changes.size(); ++i) {
      TaskQueue changed = base;
      changes[i](changed);
      const uint64_t before = launcher->launched_kept();
      launch(changed);
      EXPECT_EQ(launcher->launched_kept(), before) << "change " << i;
      launch(base);
      EXPECT_EQ(launcher->launched_kept(), before + 1) << "after change " << i;
    }
  };
  const auto task = [](auto change) { return [=](TaskQueue& queue) { change(queue.collectives[0]); }; };
  expect_all_seen(
      collective,
      {task([](CollectiveTask& t) { t.function = Function::broadcast; }),
       task([](CollectiveTask& t) { t.kernel = &kSame; }), task([](CollectiveTask& t) { t.one_shot = &kSame; }),
       task([](CollectiveTask& t) { t.op = 1; }), task([&](CollectiveTask& t) { t.send = &other_log; }),
       task([&](CollectiveTask& t) { t.recv = &element; }), task([](CollectiveTask& t) { t.count = 7; }),
       task([](CollectiveTask& t) { t.element_bytes = 2; }), task([](CollectiveTask& t) { t.root = 1; }),
       task([](CollectiveTask& t) { t.argument = 1; }), task([](CollectiveTask& t) { t.argument_high = 1; }),
       task([](CollectiveTask& t) { t.scalar_in_memory = true; }), task([](CollectiveTask& t) { t.local = &kSame; }),
       [](TaskQueue& queue) { queue.results_on_host = true; }});
  expect_all_seen(collective, {[&](TaskQueue& queue) {
                                 queue = queue_of(1, {b});
                                 --next;
                               },
                               [](TaskQueue& queue) { queue.collectives.push_back(queue.collectives[0]); }});
  expect_all_seen(pairs, {[&](TaskQueue& queue) { queue.sends[0].buffer = &other_log; },
                          [](TaskQueue& queue) { queue.sends[0].bytes = queue.recvs[0].bytes = 6; },
                          [&](TaskQueue& queue) { queue.recvs[0].buffer = nullptr; }});
  const uint64_t before = launcher->launched_kept();
  shape.threads = 2;
  launch(collective);
  EXPECT_EQ(launcher->launched_kept(), before) << "of another shape";
  for (gpu::Stream stream : {a, b}) ASSERT_TRUE(device().synchronize(stream));
}

TEST_F(LauncherTest, TheLongestUnusedMakesRoom) {
  const gpu::Stream a = new_stream();
  std::vector<TaskQueue> queues;
  for (int64_t i = 0; i <= params().kept_launches; ++i) queues.push_back(queue_of(1, {a}));
  for (size_t i = 0; i + 1 < queues.size(); ++i)
    for (int times = 0; times < KeptLaunches::kTimes; ++times) launch(queues[i]);
  const auto is_kept = [&](const TaskQueue& queue) {
    const uint64_t before = launcher->launched_kept();
    launch(queue);
    return launcher->launched_kept() > before;
  };
  EXPECT_TRUE(is_kept(queues[0]));
  EXPECT_FALSE(is_kept(queues.back()));
  for (size_t i = 2; i + 1 < queues.size(); ++i) EXPECT_TRUE(is_kept(queues[i])) << i;
  EXPECT_TRUE(is_kept(queues[0]));
  EXPECT_FALSE(is_kept(queues[1])) << "it was to make room";
  ASSERT_TRUE(device().synchronize(a));
}

TEST_F(LauncherTest, BeginsWhatItFoundUnlessThatHasMadeRoom) {
  const gpu::Stream a = new_stream();
  std::vector<TaskQueue> queues;
  for (int64_t i = 0; i <= params().kept_launches; ++i) queues.push_back(queue_of(1, {a}));
  EXPECT_FALSE(launcher->kept(queues[0], shape)) << "before it has come";
  launch(queues[0]);
  EXPECT_FALSE(launcher->kept(queues[0], shape)) << "with its hash alone";
  launch(queues[0]);
  const KeptLaunches::Ticket ticket = launcher->kept(queues[0], shape);
  EXPECT_TRUE(ticket);
  EXPECT_FALSE(launcher->kept(queues[1], shape));
  TaskQueue changed = queues[0];
  changed.results_on_host = true;
  CommShape other_shape = shape;
  other_shape.threads = 2;
  EXPECT_FALSE(launcher->kept(changed, shape));
  EXPECT_FALSE(launcher->kept(queues[0], other_shape));
  EXPECT_FALSE(launcher->begin_kept({}, false));
  ASSERT_TRUE(launcher->begin_kept(ticket, false));
  EXPECT_TRUE(*launcher->advance());
  EXPECT_EQ(launcher->launched_kept(), 1u);
  for (size_t i = 1; i < queues.size(); ++i)
    for (int times = 0; times < KeptLaunches::kTimes; ++times) launch(queues[i]);
  EXPECT_FALSE(launcher->begin_kept(ticket, false)) << "of what has made room for another one";
  EXPECT_FALSE(launcher->kept(queues[0], shape));
  ASSERT_TRUE(device().synchronize(a));
  EXPECT_EQ(log.counts[2], 1u);
}

TEST_F(LauncherTest, KeepsNoLaunchesOfSeveralStreamsOrPlansOrGraphs) {
  const gpu::Stream a = new_stream(), b = new_stream();
  const TaskQueue two_streams = queue_of(2, {a, b}), captured = queue_of(1, {a}), many = queue_of(500, {a}),
                  in_fifo = queue_of(KeptLaunches::kMostTasks, {a});
  TaskQueue two_kernels = queue_of(2, {a});
  two_kernels.collectives[1].kernel = &kSame;
  for (int times = 0; times < 5; ++times) {
    for (const TaskQueue& queue : {two_streams, many, in_fifo, two_kernels}) launch(queue);
    ASSERT_TRUE(device().begin_capture(a));
    launch(captured);
    auto graph = device().end_capture(a);
    ASSERT_TRUE(graph);
    ASSERT_TRUE(device().destroy_graph(*graph));
  }
  EXPECT_EQ(launcher->launched_kept(), 0u);
  for (gpu::Stream stream : {a, b}) ASSERT_TRUE(device().synchronize(stream));
}

TEST_F(LauncherTest, KeepsNothingThatMayBePlannedOtherwise) {
  struct Marker final : DirectMarker {
    bool mark(proto::CollectiveItem&, uint64_t, bool) override { return true; }
    bool mark(proto::PairItem&, bool) override { return true; }
  } marker;
  make_launcher(&marker, nullptr);
  const gpu::Stream a = new_stream();
  TaskQueue pairs;
  pairs.add_send(0, {&log, 5, a});
  pairs.add_recv(0, {&log, 5, a});
  for (int times = 0; times < 5; ++times) launch(pairs);
  EXPECT_EQ(launcher->launched_kept(), 0u);
  ASSERT_TRUE(device().synchronize(a));
}

TEST_F(LauncherTest, KeptOnesFollowOthersAndGraphs) {
  const gpu::Stream a = new_stream(), b = new_stream(), c = new_stream();
  const TaskQueue in_a = queue_of(1, {a}), in_b = queue_of(1, {b}), in_graph = queue_of(1, {c});
  ASSERT_TRUE(device().begin_capture(c));
  launch(in_graph);
  auto graph = device().end_capture(c);
  ASSERT_TRUE(graph);
  std::vector<uint64_t> wanted;
  for (int round = 0; round < 20; ++round) {
    launch(in_a);
    launch(in_b);
    ASSERT_TRUE(device().launch_graph(*graph, round % 2 ? a : c));
    wanted.insert(wanted.end(), {1, 2, 3});
  }
  for (gpu::Stream stream : {a, b, c}) ASSERT_TRUE(device().synchronize(stream));
  EXPECT_EQ(log.counts, wanted);
  EXPECT_LE(log.most_running, 1);
  EXPECT_EQ(launcher->launched_kept(), 36u);
  ASSERT_TRUE(device().destroy_graph(*graph));
}

// How long a kernel is to stay is a matter of each launch, whatever is kept of the others.
TEST_F(LauncherTest, WhatIsKeptDoesNotStay) {
  using std::chrono::microseconds;
  constexpr microseconds kBound{10};
  proto::Bell bell = {};
  Lingering lingering(bell, kBound);
  make_launcher(nullptr, &lingering);
  shape.n_ranks = 2;
  shape.mesh = true;
  shape.one_shot_bytes = 1 << 20;
  const gpu::Stream a = new_stream();
  TaskQueue queue = queue_of(1, {a}), other = queue_of(1, {a});
  for (TaskQueue* each : {&queue, &other}) each->collectives[0].one_shot = &kLook;
  Lingering::Clock::time_point now{std::chrono::hours(1)};
  // Whether its kernel is told to stay; it leaves all the same.
  const auto stays = [&](const TaskQueue& call, microseconds gap) {
    lingering.call_begins(now += gap);
    launch(call, true);
    EXPECT_TRUE(device().synchronize(a));
    lingering.call_ends(now);
    bell.left = launcher->launched();
    return log.linger_ns != 0;
  };
  for (const TaskQueue* call : {&queue, &other, &other}) EXPECT_FALSE(stays(*call, microseconds(1)));
  EXPECT_TRUE(stays(queue, microseconds(1))) << "as its plan is kept";
  for (uint64_t times = 1; times < 4; ++times) {
    EXPECT_FALSE(stays(queue, 2 * kBound));
    EXPECT_EQ(launcher->launched_kept(), times);
  }
  bool any = false;
  for (int i = 0; i < 10; ++i) any |= stays(queue, microseconds(1));
  EXPECT_TRUE(any) << "though it is kept on the device";
}

// Cannot keep launches, or not launch them then.
struct Unable : gpucoll_test::ForwardingDevice {
  explicit Unable(bool keeps_them) : ForwardingDevice(device()), keeps(keeps_them) {}
  Result<gpu::KeptLaunch> keep_launch(const gpu::Kernel& kernel, const proto::Plan& plan, int blocks, int threads,
                                      gpu::Stream stream) override {
    if (keeps) return ForwardingDevice::keep_launch(kernel, plan, blocks, threads, stream);
    return refuse();
  }
  Status launch_kept(gpu::KeptLaunch, gpu::Stream) override { return refuse(); }
  Status refuse() {
    ++refused;
    return Status::error(Code::unsupported, "not here");
  }
  const bool keeps;
  int refused = 0;
};

TEST_F(LauncherTest, ADeviceThatCannotLaunchKeptOnesIsAskedOnce) {
  const gpu::Stream a = new_stream();
  std::vector<uint64_t> wanted;
  for (bool keeps : {false, true}) {
    Unable unable(keeps);
    comm.counters.done = 0;
    make_launcher(nullptr, nullptr, unable);
    const TaskQueue first = queue_of(1, {a}), second = queue_of(1, {a});
    for (int times = 0; times < 6; ++times) {
      launch(first);
      launch(second);
      wanted.insert(wanted.end(), {next - 2, next - 1});
    }
    ASSERT_TRUE(device().synchronize(a));
    EXPECT_EQ(unable.refused, 1);
    EXPECT_EQ(launcher->launched(), 12u);
    EXPECT_EQ(launcher->launched_kept(), 0u);
    launcher.reset();
  }
  EXPECT_EQ(log.counts, wanted);
}

TEST_F(LauncherTest, AFaultEndsKeptOnesAsWell) {
  const gpu::Stream a = new_stream();
  const TaskQueue queue = queue_of(1, {a});
  for (int times = 0; times < 4; ++times) launch(queue);
  ASSERT_TRUE(launcher->begin(queue, shape));
  fault.raise(Status::error(Code::aborted, "enough"));
  auto all = launcher->advance();
  ASSERT_FALSE(all);
  EXPECT_EQ(all.status().code(), Code::aborted);
  EXPECT_EQ(launcher->launched(), 4u);
  ASSERT_TRUE(device().synchronize(a));
}

}  // namespace
}  // namespace gpucoll::core
