// Capture and graphs of the emulated devices: order, progress side by side, lives of graphs and of what they keep.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "emu_kernels.h"
#include "gpu/emu/pool.h"

namespace gpucoll::gpu {
namespace {

void count(void* counter) { static_cast<std::atomic<int>*>(counter)->fetch_add(1); }

// A stream of its device that is gone in the end.
class OwnStream {
 public:
  explicit OwnStream(int index = 0) : index_(index), stream_(new_stream(index)) {}
  ~OwnStream() { EXPECT_TRUE(device(index_).destroy_stream(stream_)); }
  operator Stream() const { return stream_; }

 private:
  int index_;
  Stream stream_;
};

TEST(EmuGraph, WhatIsCapturedRunsAtEachLaunchOnly) {
  Orders orders;
  OwnStream stream, other;
  ASSERT_TRUE(device().begin_capture(stream));
  for (int i = 1; i <= 3; ++i) ASSERT_TRUE(device().launch(kLog, plan_for(orders, i), 1 + i % 2, i, stream));
  const Graph graph = *device().end_capture(stream);
  ASSERT_TRUE(device().synchronize(stream));
  EXPECT_TRUE(orders.log.empty());
  std::vector<int> expected;
  for (int round = 0; round < 30; ++round) {
    Stream where = round % 2 == 0 ? stream : other;  // launches of one graph follow each other on any streams
    ASSERT_TRUE(device().launch_graph(graph, where));
    for (int i = 1; i <= 3; ++i) expected.push_back(i);
  }
  ASSERT_TRUE(device().synchronize(stream));
  ASSERT_TRUE(device().synchronize(other));
  EXPECT_EQ(orders.log, expected);
  EXPECT_EQ(orders.wrong.load(), 0);
  ASSERT_TRUE(device().destroy_graph(graph));
}

TEST(EmuGraph, ALaunchIsOnePieceOfItsStream) {
  OwnStream stream, branch;
  Orders orders;
  ASSERT_TRUE(device().begin_capture(stream));
  ASSERT_TRUE(device().stream_wait(branch, stream));
  ASSERT_TRUE(device().launch(kLog, plan_for(orders, 2), 1, 1, branch));
  ASSERT_TRUE(device().stream_wait(stream, branch));
  const Graph graph = *device().end_capture(stream);
  ASSERT_TRUE(device().launch(kWait, plan_for(orders), 1, 1, stream));
  ASSERT_TRUE(device().launch(kLog, plan_for(orders, 1), 1, 1, stream));
  ASSERT_TRUE(device().launch_graph(graph, stream));
  ASSERT_TRUE(device().launch(kLog, plan_for(orders, 3), 1, 1, stream));
  await_rest();
  orders.gate.store(1);
  ASSERT_TRUE(device().synchronize(stream));
  EXPECT_EQ(orders.log, (std::vector<int>{1, 2, 3}));
  ASSERT_TRUE(device().destroy_graph(graph));
}

// As two ranks of one process do it: each device has a stream, and their kernels wait for each other.
TEST(EmuGraph, KernelsOfOneGraphThatWaitForEachOtherMakeProgress) {
  Orders orders;
  OwnStream first(0), second(1);
  ASSERT_TRUE(device(0).begin_capture(first));
  ASSERT_TRUE(device(1).stream_wait(second, first));
  ASSERT_TRUE(device(0).launch(kFirst, plan_for(orders), 2, 2, first));
  ASSERT_TRUE(device(1).launch(kSecond, plan_for(orders), 2, 2, second));
  ASSERT_TRUE(device(0).stream_wait(first, second));
  const Graph graph = *device(0).end_capture(first);
  for (int round = 0; round < 50; ++round) {
    orders.gate.store(0);
    orders.other_gate.store(0);
    ASSERT_TRUE(device(0).launch_graph(graph, round % 2 == 0 ? nullptr : static_cast<Stream>(first)));
    ASSERT_TRUE(device(0).synchronize(round % 2 == 0 ? nullptr : static_cast<Stream>(first)));
  }
  ASSERT_TRUE(device(0).destroy_graph(graph));
}

TEST(EmuGraph, OrderWithinACaptureIsKept) {
  Orders orders;
  OwnStream a, b, c(2);
  ASSERT_TRUE(device().begin_capture(a));
  for (Stream stream : {static_cast<Stream>(b), static_cast<Stream>(c)}) ASSERT_TRUE(device().stream_wait(stream, a));
  std::vector<int> once;
  for (int i = 0; i < 30; ++i) {
    const Stream now = i % 3 == 0 ? c : i % 3 == 1 ? b : a, next = i % 3 == 0 ? b : i % 3 == 1 ? a : c;
    ASSERT_TRUE(device().launch(kLog, plan_for(orders, i), 1, 1, now));
    ASSERT_TRUE(device().stream_wait(next, now));
    once.push_back(i);
  }
  ASSERT_TRUE(device().stream_wait(a, c));
  const Graph graph = *device().end_capture(a);
  std::vector<int> expected;
  for (int round = 0; round < 10; ++round) {
    ASSERT_TRUE(device().launch_graph(graph, a));
    expected.insert(expected.end(), once.begin(), once.end());
  }
  ASSERT_TRUE(device().destroy_graph(graph));  // each launch keeps what it needs
  ASSERT_TRUE(device().synchronize(a));
  EXPECT_EQ(orders.log, expected);
}

TEST(EmuGraph, EventsAreRecordedAndWaitedForAtEachLaunch) {
  Orders before, graphs;
  OwnStream captured, outside;
  const Event begin = *device().create_event(), end = *device().create_event();
  ASSERT_TRUE(device().begin_capture(captured));
  ASSERT_TRUE(device().wait_event(captured, begin));
  ASSERT_TRUE(device().launch(kLog, plan_for(graphs, 1), 1, 1, captured));
  ASSERT_TRUE(device().record(end, captured));
  const Graph graph = *device().end_capture(captured);
  ASSERT_TRUE(device().wait_event(outside, end));  // has not been recorded yet: passes
  ASSERT_TRUE(device().synchronize(outside));
  std::vector<int> expected;
  for (int round = 0; round < 10; ++round) {
    before.gate.store(0);
    ASSERT_TRUE(device().launch(kWait, plan_for(before), 1, 1, outside));
    ASSERT_TRUE(device().launch(kLog, plan_for(graphs, 0), 1, 1, outside));
    ASSERT_TRUE(device().record(begin, outside));
    ASSERT_TRUE(device().launch_graph(graph, captured));
    ASSERT_TRUE(device().wait_event(outside, end));
    ASSERT_TRUE(device().launch(kLog, plan_for(graphs, 2), 1, 1, outside));
    await_rest();
    before.gate.store(1);
    ASSERT_TRUE(device().synchronize(outside));
    for (int i : {0, 1, 2}) expected.push_back(i);
  }
  EXPECT_EQ(graphs.log, expected);
  ASSERT_TRUE(device().synchronize(captured));
  ASSERT_TRUE(device().destroy_graph(graph));
  device().destroy_event(begin);
  device().destroy_event(end);
}

TEST(EmuGraph, CopiesAndSignalsAreRecorded) {
  OwnStream stream, peer;
  int in = 0, out = 0;
  auto* word = static_cast<uint64_t*>(*device().allocate(8));
  ASSERT_TRUE(device().begin_capture(stream));
  ASSERT_TRUE(device().wait_value(stream, word, 1, nullptr));
  ASSERT_TRUE(device().copy_async(&out, &in, sizeof in, stream));
  ASSERT_TRUE(device().write_value(stream, word, 0));
  const Graph graph = *device().end_capture(stream);
  EXPECT_EQ(*word, 0u);
  for (int round = 1; round < 20; ++round) {
    in = round;
    ASSERT_TRUE(device().launch_graph(graph, stream));
    ASSERT_TRUE(device().write_value(peer, word, 1));
    ASSERT_TRUE(device().synchronize(stream));
    EXPECT_EQ(out, round);
    EXPECT_EQ(*word, 0u);
  }
  ASSERT_TRUE(device().destroy_graph(graph));
  device().release(word);
}

TEST(EmuGraph, ACaptureHasANumberOfItsOwn) {
  OwnStream one, two, three;
  EXPECT_EQ(*device().capture_of(one), 0u);
  EXPECT_EQ(*device().capture_of(nullptr), 0u);
  ASSERT_TRUE(device().begin_capture(one));
  ASSERT_TRUE(device().begin_capture(three));
  ASSERT_TRUE(device().stream_wait(two, one));
  const uint64_t first = *device().capture_of(one), other = *device().capture_of(three);
  EXPECT_NE(first, 0u);
  EXPECT_NE(other, 0u);
  EXPECT_NE(first, other);
  EXPECT_EQ(*device().capture_of(two), first);
  ASSERT_TRUE(device().destroy_graph(*device().end_capture(one)));
  ASSERT_TRUE(device().destroy_graph(*device().end_capture(three)));
  EXPECT_EQ(*device().capture_of(two), 0u);
  ASSERT_TRUE(device().begin_capture(one));
  EXPECT_NE(*device().capture_of(one), first);
  ASSERT_TRUE(device().destroy_graph(*device().end_capture(one)));
}

TEST(EmuGraph, WhatIsKeptGoesOnceAfterTheLastLaunchAndTheGraph) {
  Orders orders;
  std::atomic<int> released{0};
  OwnStream stream;
  ASSERT_TRUE(device().begin_capture(stream));
  ASSERT_TRUE(device().launch(kWait, plan_for(orders), 1, 1, stream));
  ASSERT_TRUE(device().keep_with_graph(stream, count, &released));
  const Graph graph = *device().end_capture(stream);
  ASSERT_TRUE(device().launch_graph(graph, stream));
  ASSERT_TRUE(device().launch_graph(graph, stream));
  ASSERT_TRUE(device().destroy_graph(graph));
  await_rest();
  EXPECT_EQ(released.load(), 0);  // still running
  orders.gate.store(1);
  ASSERT_TRUE(device().synchronize(stream));
  EXPECT_EQ(released.load(), 1);
}

TEST(EmuGraph, WhatIsKeptGoesWithAGraphThatWasNeverLaunchedOrNeverMade) {
  Orders orders;
  std::atomic<int> released{0};
  OwnStream stream, branch;
  ASSERT_TRUE(device().begin_capture(stream));
  ASSERT_TRUE(device().keep_with_graph(stream, count, &released));
  const Graph graph = *device().end_capture(stream);
  EXPECT_EQ(released.load(), 0);
  ASSERT_TRUE(device().destroy_graph(graph));
  EXPECT_EQ(released.load(), 1);

  ASSERT_TRUE(device().begin_capture(stream));
  ASSERT_TRUE(device().keep_with_graph(stream, count, &released));
  ASSERT_TRUE(device().stream_wait(branch, stream));
  ASSERT_TRUE(device().launch(kLog, plan_for(orders, 1), 1, 1, branch));
  auto failed = device().end_capture(stream);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.status().code(), Code::invalid_usage);
  EXPECT_EQ(released.load(), 2);
  for (Stream any : {static_cast<Stream>(stream), static_cast<Stream>(branch)})
    EXPECT_EQ(*device().capture_of(any), 0u);
}

TEST(EmuGraph, EveryStreamMustBeWaitedForToItsEnd) {
  Orders orders;
  OwnStream a, b, c;
  const auto launch = [&](Stream stream) { ASSERT_TRUE(device().launch(kLog, plan_for(orders), 1, 1, stream)); };
  // Joined through another stream, and a stream that did nothing: fine.
  ASSERT_TRUE(device().begin_capture(a));
  ASSERT_TRUE(device().stream_wait(b, a));
  ASSERT_TRUE(device().stream_wait(c, a));
  launch(c);
  ASSERT_TRUE(device().stream_wait(b, c));
  ASSERT_TRUE(device().stream_wait(a, b));
  ASSERT_TRUE(device().stream_wait(c, a));
  auto graph = device().end_capture(a);
  ASSERT_TRUE(graph) << graph.status().what();
  ASSERT_TRUE(device().destroy_graph(*graph));
  // More work after the join.
  ASSERT_TRUE(device().begin_capture(a));
  ASSERT_TRUE(device().stream_wait(b, a));
  launch(b);
  ASSERT_TRUE(device().stream_wait(a, b));
  launch(b);
  EXPECT_EQ(device().end_capture(a).status().code(), Code::invalid_usage);
  EXPECT_TRUE(orders.log.empty());
}

TEST(EmuGraph, MisuseIsAnsweredWithASentenceAndHarmsNoCapture) {
  OwnStream one, joined, other, outside;
  Orders orders;
  EXPECT_EQ(device().begin_capture(nullptr).code(), Code::invalid_usage);
  EXPECT_EQ(device().end_capture(one).status().code(), Code::invalid_usage);
  EXPECT_EQ(device().keep_with_graph(one, count, nullptr).code(), Code::invalid_usage);
  ASSERT_TRUE(device().begin_capture(one));
  ASSERT_TRUE(device().begin_capture(other));
  ASSERT_TRUE(device().stream_wait(joined, one));
  EXPECT_EQ(device().begin_capture(joined).code(), Code::invalid_usage);
  EXPECT_EQ(device().end_capture(joined).status().code(), Code::invalid_usage);
  EXPECT_EQ(device().synchronize(joined).code(), Code::invalid_usage);
  EXPECT_EQ(device().destroy_stream(joined).code(), Code::invalid_usage);
  EXPECT_EQ(device().stream_wait(one, outside).code(), Code::invalid_usage);
  EXPECT_EQ(device().stream_wait(one, nullptr).code(), Code::invalid_usage);
  EXPECT_EQ(device().stream_wait(nullptr, one).code(), Code::invalid_usage);
  EXPECT_EQ(device().stream_wait(other, joined).code(), Code::invalid_usage);
  ASSERT_TRUE(device().launch(kLog, plan_for(orders, 1), 1, 1, one));
  ASSERT_TRUE(device().destroy_graph(*device().end_capture(other)));
  const Graph graph = *device().end_capture(one);
  ASSERT_TRUE(device().begin_capture(other));
  EXPECT_EQ(device().launch_graph(graph, other).code(), Code::invalid_usage);
  ASSERT_TRUE(device().destroy_graph(*device().end_capture(other)));
  ASSERT_TRUE(device().launch_graph(graph, one));
  ASSERT_TRUE(device().synchronize(one));
  EXPECT_EQ(orders.log, std::vector<int>{1});
  ASSERT_TRUE(device().destroy_graph(graph));
  EXPECT_EQ(device().destroy_graph(graph).code(), Code::invalid_argument);
  EXPECT_EQ(device().launch_graph(graph, one).code(), Code::invalid_argument);
}

TEST(EmuGraph, GraphsGiveTheirThreadsBack) {
  int before = 0;
  for (int round = 0; round < 20; ++round) {
    Orders orders;
    OwnStream one, two(3);
    ASSERT_TRUE(device().begin_capture(one));
    ASSERT_TRUE(device().stream_wait(two, one));
    ASSERT_TRUE(device().launch(kLog, plan_for(orders, 1), 3, 2, one));
    ASSERT_TRUE(device().stream_wait(two, one));
    ASSERT_TRUE(device().launch(kLog, plan_for(orders, 2), 2, 4, two));
    ASSERT_TRUE(device().stream_wait(one, two));
    const Graph graph = *device().end_capture(one);
    for (int i = 0; i < 5; ++i) ASSERT_TRUE(device().launch_graph(graph, one));
    ASSERT_TRUE(device().destroy_graph(graph));
    ASSERT_TRUE(device().synchronize(one));
    EXPECT_EQ(orders.log.size(), 10u);
    if (round == 0) before = emu::Pool::instance().threads();
  }
  EXPECT_EQ(emu::Pool::instance().threads(), before);
}

TEST(EmuGraph, ManyGraphsAtOnce) {
  std::vector<std::thread> threads;
  Orders orders[4];
  for (Orders& mine : orders)
    threads.emplace_back([&mine] {
      OwnStream one(1), two(2);
      for (int round = 0; round < 20; ++round) {
        ASSERT_TRUE(device().begin_capture(one));
        ASSERT_TRUE(device().stream_wait(two, one));
        ASSERT_TRUE(device().launch(kLog, plan_for(mine, round), 2, 1, two));
        ASSERT_TRUE(device().stream_wait(one, two));
        const Graph graph = *device().end_capture(one);
        ASSERT_TRUE(device().launch_graph(graph, one));
        ASSERT_TRUE(device().launch_graph(graph, one));
        ASSERT_TRUE(device().destroy_graph(graph));
      }
    });
  for (auto& thread : threads) thread.join();
  for (Orders& mine : orders) EXPECT_EQ(mine.log.size(), 40u);
}

}  // namespace
}  // namespace gpucoll::gpu
