// What is kept of launches. REQUIRES: the parameter plan_cache is not off.
#include "core/launch/plan_cache.h"

#include <chrono>
#include <functional>

#include "../forwarding_device.h"
#include "../in_flight.h"
#include "base/observe/causes.h"
#include "base/observe/counters.h"
#include "base/params.h"
#include "launcher_fixture.h"

namespace gpucoll::core {
namespace {

// Launches are kept on the device only while nothing is under way.
struct KeptTest : LauncherTest {
  KeptTest() { rests = true; }
  bool is_kept(const TaskQueue& queue) {
    const uint64_t before = launcher->launched_kept();
    launch(queue);
    return launcher->launched_kept() > before;
  }
};

TEST_F(KeptTest, KeepsWhatComesForTheThirdTime) {
  const gpu::Stream a = new_stream();
  const TaskQueue first = queue_of(2, {a}), second = queue_of(1, {a});
  std::vector<uint64_t> wanted;
  for (uint64_t round = 1; round <= 10; ++round) {
    launch(first);
    launch(second);
    wanted.insert(wanted.end(), {1, 2, 3});
    EXPECT_EQ(launcher->launched_kept(), round < PlanCache::kTimes ? 0 : 2 * (round + 1 - PlanCache::kTimes));
  }
  ASSERT_TRUE(device().synchronize(a));
  EXPECT_EQ(log.counts, wanted);
  EXPECT_EQ(launcher->launched(), 20u);
  EXPECT_EQ(*static_cast<uint64_t*>(words.host), 20u);
}

// Each of these is one of the group's own, or decides how it is planned.
TEST_F(KeptTest, WhatDiffersIsNotTakenForTheSame) {
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
       task([](CollectiveTask& t) { t.kernels.plan = &kSame; }),
       task([](CollectiveTask& t) { t.kernels.one_shot = &kSame; }),
       task([](CollectiveTask& t) { t.kernels.pairs = &kSame; }),
       task([](CollectiveTask& t) { t.kernels.open_rings = &kSame; }),
       task([](CollectiveTask& t) { t.kernels.open_pairs = &kSame; }),
       task([](CollectiveTask& t) { t.kernels.op = 1; }), task([&](CollectiveTask& t) { t.send = &other_log; }),
       task([&](CollectiveTask& t) { t.recv = &element; }), task([](CollectiveTask& t) { t.count = 7; }),
       task([](CollectiveTask& t) { t.element_bytes = 2; }), task([](CollectiveTask& t) { t.root = 1; }),
       task([](CollectiveTask& t) { t.argument = 1; }), task([](CollectiveTask& t) { t.argument_high = 1; }),
       task([](CollectiveTask& t) { t.scalar_in_memory = true; }),
       task([](CollectiveTask& t) { t.kernels.local = &kSame; }),
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

TEST_F(KeptTest, TheLongestUnusedMakesRoom) {
  const gpu::Stream a = new_stream();
  std::vector<TaskQueue> queues;
  for (int64_t i = 0; i <= params().plan_cache; ++i) queues.push_back(queue_of(1, {a}));
  for (size_t i = 0; i + 1 < queues.size(); ++i)
    for (int times = 0; times < PlanCache::kTimes; ++times) launch(queues[i]);
  EXPECT_TRUE(is_kept(queues[0]));
  EXPECT_FALSE(is_kept(queues.back()));
  for (size_t i = 2; i + 1 < queues.size(); ++i) EXPECT_TRUE(is_kept(queues[i])) << i;
  EXPECT_TRUE(is_kept(queues[0]));
  EXPECT_FALSE(is_kept(queues[1])) << "it was to make room";
  ASSERT_TRUE(device().synchronize(a));
}

TEST_F(KeptTest, WaitsUntilNothingIsUnderWay) {
  const TaskQueue queue = queue_of(1, {new_stream()});
  gpucoll_test::FakeInFlight work;
  work.busy = true;
  for (int times = 0; times < 5; ++times) EXPECT_FALSE(is_kept(queue));
  work.busy = false;
  EXPECT_TRUE(is_kept(queue));
  work.busy = true;
  EXPECT_TRUE(is_kept(queue)) << "as it is on the device";
}

TEST_F(KeptTest, BeginsWhatItFoundUnlessThatHasMadeRoom) {
  const gpu::Stream a = new_stream();
  std::vector<TaskQueue> queues;
  for (int64_t i = 0; i <= params().plan_cache; ++i) queues.push_back(queue_of(1, {a}));
  EXPECT_FALSE(launcher->kept(queues[0], shape)) << "before it has come";
  launch(queues[0]);
  EXPECT_FALSE(launcher->kept(queues[0], shape)) << "with its hash alone";
  launch(queues[0]);
  const PlanCache::Hit hit = launcher->kept(queues[0], shape);
  EXPECT_TRUE(hit);
  EXPECT_FALSE(launcher->kept(queues[1], shape));
  TaskQueue changed = queues[0];
  changed.results_on_host = true;
  CommProperties other_shape = shape;
  other_shape.threads = 2;
  EXPECT_FALSE(launcher->kept(changed, shape));
  EXPECT_FALSE(launcher->kept(queues[0], other_shape));
  EXPECT_FALSE(launcher->begin_kept({}, false));
  ASSERT_TRUE(launcher->begin_kept(hit, false));
  EXPECT_TRUE(*launcher->advance());
  EXPECT_EQ(launcher->launched_kept(), 1u);
  for (size_t i = 1; i < queues.size(); ++i)
    for (int times = 0; times < PlanCache::kTimes; ++times) launch(queues[i]);
  EXPECT_FALSE(launcher->begin_kept(hit, false)) << "of what has made room for another one";
  EXPECT_FALSE(launcher->kept(queues[0], shape));
  ASSERT_TRUE(device().synchronize(a));
  EXPECT_EQ(log.counts[2], 1u);
}

TEST_F(KeptTest, KnowsWhetherItWouldFindTheSameAgain) {
  const gpu::Stream a = new_stream();
  std::vector<TaskQueue> queues;
  for (int64_t i = 0; i <= params().plan_cache; ++i) queues.push_back(queue_of(1, {a}));
  EXPECT_FALSE(launcher->is_kept({}));
  for (int times = 0; times < 2; ++times) launch(queues[0]);
  const PlanCache::Hit hit = launcher->kept(queues[0], shape);
  EXPECT_TRUE(launcher->is_kept(hit));
  launcher->shape_changes();
  EXPECT_FALSE(launcher->is_kept(hit)) << "of a shape that is another now";
  EXPECT_TRUE(launcher->begin_kept(hit, false)) << "what was prepared before";
  EXPECT_TRUE(*launcher->advance());
  const PlanCache::Hit after = launcher->kept(queues[0], shape);
  EXPECT_TRUE(launcher->is_kept(after));
  for (size_t i = 1; i < queues.size(); ++i)
    for (int times = 0; times < PlanCache::kTimes; ++times) launch(queues[i]);
  EXPECT_FALSE(launcher->is_kept(after)) << "of what has made room for another one";
  ASSERT_TRUE(device().synchronize(a));
}

TEST_F(KeptTest, KeepsNoLaunchesOfSeveralStreamsOrOfManyPlansOrGraphs) {
  const gpu::Stream a = new_stream(), b = new_stream();
  const TaskQueue two_streams = queue_of(2, {a, b}), captured = queue_of(1, {a}), many = queue_of(500, {a}),
                  in_fifo = queue_of(PlanCache::kMostTasks, {a});
  TaskQueue many_plans;
  LocalTask task = {&kLook, {}, 4};
  task.reduction.own = reinterpret_cast<const uint8_t*>(&log);
  task.reduction.count = 8;
  many_plans.reductions.assign(PlanCache::kMostPlans + 1, task);
  many_plans.streams = {a};
  for (int times = 0; times < 5; ++times) {
    for (const TaskQueue& queue : {two_streams, many, in_fifo, many_plans}) launch(queue);
    ASSERT_TRUE(device().begin_capture(a));
    launch(captured);
    auto graph = device().end_capture(a);
    ASSERT_TRUE(graph);
    ASSERT_TRUE(device().destroy_graph(*graph));
  }
  EXPECT_EQ(launcher->launched_kept(), 0u);
  for (gpu::Stream stream : {a, b}) ASSERT_TRUE(device().synchronize(stream));
}

TEST_F(KeptTest, KeepsSeveralLaunchesAsOne) {
  TaskQueue queue = queue_of(2, {new_stream()});
  queue.collectives[1].kernels.plan = &kSame;
  std::vector<uint64_t> wanted;
  for (int times = 1; times < 6; ++times) {
    EXPECT_EQ(is_kept(queue), times >= PlanCache::kTimes);
    wanted.insert(wanted.end(), {1, 2});
    EXPECT_EQ(launcher->launched(), wanted.size());
  }
  EXPECT_EQ(launcher->launched_kept(), 3u);
  EXPECT_EQ(log.counts, wanted);
  EXPECT_EQ(*static_cast<uint64_t*>(words.host), wanted.size());
  TaskQueue changed = queue;
  changed.collectives[1].kernels.plan = &kLook;
  EXPECT_FALSE(is_kept(changed));
}

// Reductions and copies on this device alone: launches without channels.
TEST_F(KeptTest, KeepsWhatIsLaunchedForThisDeviceAlone) {
  const gpu::Stream a = new_stream();
  TaskQueue reduces, copies;
  LocalTask task = {&kLook, {}, 4};
  task.reduction.own = reinterpret_cast<const uint8_t*>(&log);
  task.reduction.count = 8;
  reduces.reductions = {task};
  proto::PackItem item{};
  item.memory = reinterpret_cast<uint8_t*>(&log);
  item.bytes = item.element_bytes = item.run_bytes = 64;
  copies.spread = {item};
  copies.packing = &kLook;
  reduces.streams = copies.streams = {a};
  for (TaskQueue* base : {&reduces, &copies}) {
    for (int times = 1; times < 6; ++times) EXPECT_EQ(is_kept(*base), times >= PlanCache::kTimes);
    uint8_t other[64];
    const auto expect_seen = [&](auto change) {
      TaskQueue changed = *base;
      change(changed);
      EXPECT_FALSE(is_kept(changed));
      EXPECT_TRUE(is_kept(*base));
    };
    if (base == &reduces) {
      expect_seen([&](TaskQueue& queue) { queue.reductions[0].reduction.more[0] = other; });
      expect_seen([&](TaskQueue& queue) { queue.reductions[0].kernel = &kSame; });
      expect_seen([&](TaskQueue& queue) { queue.reductions[0].element_bytes = 1 << 20; });
      expect_seen([&](TaskQueue& queue) { std::swap(queue.reductions, queue.late_reductions); });
    } else {
      expect_seen([&](TaskQueue& queue) { queue.spread[0].packed = other; });
      expect_seen([&](TaskQueue& queue) { queue.spread[0].level[0].stride = 3; });
      expect_seen([&](TaskQueue& queue) { queue.packing = &kSame; });
      expect_seen([&](TaskQueue& queue) { std::swap(queue.spread, queue.before); });
      expect_seen([&](TaskQueue& queue) { std::swap(queue.spread, queue.after); });
    }
    expect_seen([&](TaskQueue& queue) { queue.add_send(0, {&log, 0, a}), queue.add_recv(0, {&log, 0, a}); });
  }
}

TEST_F(KeptTest, PlansWhatMayBeAnotherWayEachTime) {
  struct Marker final : UserBufferMarker {
    bool mark(proto::CollectiveItem&, uint64_t, bool) override { return true; }
    bool mark(proto::SendRecvItem& item, bool) override {
      ++asked;
      item.granted = granted;
      return true;
    }
    bool open(const void*, bool, proto::BufferAddresses&) override { return false; }
    int asked = 0;
    uint8_t* granted = nullptr;
  } marker;
  make_launcher(&marker, nullptr);
  const gpu::Stream a = new_stream();
  TaskQueue pairs;
  pairs.add_send(0, {&log, 5, a});
  pairs.add_recv(0, {&log, 5, a});
  for (int times = 1; times < 6; ++times) {
    EXPECT_FALSE(launcher->kept(pairs, shape));
    EXPECT_EQ(is_kept(pairs), times >= PlanCache::kTimes);
    EXPECT_EQ(marker.asked, times);
  }
  uint8_t other = 0;
  marker.granted = &other;
  EXPECT_FALSE(is_kept(pairs)) << "as its plan is another one";
  EXPECT_TRUE(is_kept(pairs));
  for (int times = 0; times < 4; ++times) {
    marker.granted = marker.granted ? nullptr : &other;
    EXPECT_FALSE(is_kept(pairs)) << times;
  }
}

TEST_F(KeptTest, KeptOnesFollowOthersAndGraphs) {
  const gpu::Stream a = new_stream(), b = new_stream(), c = new_stream();
  const TaskQueue in_a = queue_of(1, {a}), in_b = queue_of(1, {b}), in_graph = queue_of(1, {c});
  std::vector<uint64_t> wanted;
  for (int round = 0; round < 3; ++round) {
    launch(in_a);
    launch(in_b);
    wanted.insert(wanted.end(), {1, 2});
  }
  ASSERT_TRUE(device().begin_capture(c));
  launch(in_graph);
  auto graph = device().end_capture(c);
  ASSERT_TRUE(graph);
  for (int round = 0; round < 20; ++round) {
    launch(in_a);
    launch(in_b);
    ASSERT_TRUE(device().launch_graph(*graph, round % 2 ? a : c));
    wanted.insert(wanted.end(), {1, 2, 3});
  }
  for (gpu::Stream stream : {a, b, c}) ASSERT_TRUE(device().synchronize(stream));
  EXPECT_EQ(log.counts, wanted);
  EXPECT_LE(log.most_running, 1);
  EXPECT_EQ(launcher->launched_kept(), 42u);
  ASSERT_TRUE(device().destroy_graph(*graph));
}

// Whether it runs, and so whether anything is under way, nobody knows.
TEST_F(KeptTest, KeepsNoneWhileTheProgramHasAGraph) {
  const gpu::Stream a = new_stream(), c = new_stream();
  const TaskQueue early = queue_of(1, {a}), late = queue_of(2, {a}), in_graph = queue_of(1, {c});
  for (int times = 0; times < 3; ++times) EXPECT_EQ(is_kept(early), times == 2);
  ASSERT_TRUE(device().begin_capture(c));
  launch(in_graph);
  auto graph = device().end_capture(c);
  ASSERT_TRUE(graph);
  for (int times = 0; times < 5; ++times) EXPECT_FALSE(is_kept(late));
  EXPECT_TRUE(is_kept(early)) << "what is there serves";
  ASSERT_TRUE(device().destroy_graph(*graph));
  EXPECT_TRUE(is_kept(late));
}

// How long a kernel is to stay is a matter of each launch, whatever is kept of the others.
TEST_F(KeptTest, WhatIsKeptDoesNotStay) {
  using std::chrono::microseconds;
  constexpr microseconds kBound{10};
  proto::Doorbell doorbell = {};
  ResidentKernel resident(doorbell, kBound);
  make_launcher(nullptr, &resident);
  shape.n_ranks = 2;
  shape.mesh = true;
  shape.one_shot_bytes = 1 << 20;
  const gpu::Stream a = new_stream();
  TaskQueue queue = queue_of(1, {a}), other = queue_of(1, {a});
  for (TaskQueue* each : {&queue, &other}) each->collectives[0].kernels.one_shot = &kLook;
  ResidentKernel::Clock::time_point now{std::chrono::hours(1)};
  // Whether its kernel is told to stay; it leaves all the same.
  const auto stays = [&](const TaskQueue& call, microseconds gap) {
    resident.call_begins(now += gap);
    launch(call, true);
    EXPECT_TRUE(device().synchronize(a));
    resident.call_ends(now);
    doorbell.left = launcher->launched();
    return log.resident_ns != 0;
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
  Result<gpu::CachedLaunch> keep_launches(std::span<const gpu::Launch> launches, gpu::Stream stream) override {
    if (keeps) return ForwardingDevice::keep_launches(launches, stream);
    return refuse();
  }
  Status launch_kept(gpu::CachedLaunch, gpu::Stream) override { return refuse(); }
  Status refuse() {
    ++refused;
    return Status::error(Code::unsupported, "not here");
  }
  const bool keeps;
  int refused = 0;
};

TEST_F(KeptTest, ADeviceThatCannotLaunchKeptOnesIsAskedOnce) {
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

TEST_F(KeptTest, WhatMakesRoomIsDroppedWhenNothingIsUnderWay) {
  struct Counting : gpucoll_test::ForwardingDevice {
    Counting() : ForwardingDevice(device()) {}
    void drop_launch(gpu::CachedLaunch launch) noexcept override {
      ++dropped;
      ForwardingDevice::drop_launch(launch);
    }
    int dropped = 0;
  } counting;
  PlanCache kept(counting, 1, true);
  const TaskQueue first = queue_of(1, {new_stream()}), second = queue_of(1, first.streams);
  const auto comes = [&](const TaskQueue& queue) {
    PlanCache::Entry* const entry = kept.look_up(queue, shape);
    std::vector<PlannedLaunch> plans(1);
    plans[0].kernel = &kLook;
    plans[0].plan.channel_mask = 1;
    if (entry->plans.empty()) kept.keep(*entry, queue, shape, &plans);
    return entry;
  };
  for (int times = 1; times < PlanCache::kTimes; ++times) comes(first);
  ASSERT_TRUE(comes(first)->launch);
  gpucoll_test::FakeInFlight work;
  work.busy = true;
  comes(second);
  EXPECT_EQ(counting.dropped, 0);
  work.busy = false;
  Quiescence::instance().release_pending();
  EXPECT_EQ(counting.dropped, 1);
}

TEST_F(KeptTest, KeepsPlansAlone) {
  Unable unable(true);
  PlanCache kept(unable, 2, false);
  const TaskQueue queue = queue_of(1, {new_stream()});
  for (int times = 1; times <= 5; ++times) {
    PlanCache::Entry* const entry = kept.look_up(queue, shape);
    ASSERT_TRUE(entry);
    EXPECT_EQ(entry->plans.size(), times > 2 ? 1u : 0u);
    std::vector<PlannedLaunch> plans(1);
    plans[0].kernel = &kLook;
    if (entry->plans.empty()) {
      EXPECT_EQ(kept.keep(*entry, queue, shape, &plans), times == 2);
    }
    EXPECT_FALSE(kept.launch(*entry, nullptr));
    EXPECT_EQ(entry->launch, nullptr);
  }
  EXPECT_EQ(unable.refused, 0);
}

TEST_F(KeptTest, EachCallThatADeviceCannotKeepIsCounted) {
  const auto counted = [] { return counter_value(static_cast<size_t>(Counter::slow_no_graph_launch)); };
  for (bool keeps : {false, true}) {
    Unable unable(keeps);
    CauseLog causes("a communicator");
    PlanCache kept(unable, 2, true, &causes);
    const TaskQueue queue = queue_of(1, {new_stream()});
    const uint64_t before = counted();
    for (uint64_t times = 1; times <= 5; ++times) {
      PlanCache::Entry* const entry = kept.look_up(queue, shape);
      ASSERT_TRUE(entry);
      std::vector<PlannedLaunch> plans(1);
      plans[0].kernel = &kLook;
      plans[0].plan.channel_mask = 1;
      if (entry->plans.empty()) kept.keep(*entry, queue, shape, &plans);
      EXPECT_FALSE(kept.launch(*entry, queue.streams.front()));
      EXPECT_EQ(counted() - before, times < PlanCache::kTimes ? 0u : times + 1 - PlanCache::kTimes);
    }
    EXPECT_EQ(unable.refused, 1);
  }
}

TEST_F(KeptTest, AFaultEndsKeptOnesAsWell) {
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
