// Streams of the emulated devices: order, progress side by side, many launches, events and signals.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <thread>
#include <vector>

#include "emu_kernels.h"
#include "gpu/emu/pool.h"

namespace gpucoll::gpu {
namespace {

class EmuStream : public testing::TestWithParam<int> {};

TEST_P(EmuStream, LaunchesOfOneStreamRunInOrderOneByOne) {
  const int threads = GetParam();
  Orders orders;
  Stream stream = new_stream();
  for (int i = 0; i < 300; ++i) ASSERT_TRUE(device().launch(kLog, plan_for(orders, i), 1 + i % 3, threads, stream));
  ASSERT_TRUE(device().synchronize(stream));
  ASSERT_EQ(orders.log.size(), 300u);
  for (int i = 0; i < 300; ++i) EXPECT_EQ(orders.log[i], i);
  EXPECT_EQ(orders.wrong.load(), 0);
  ASSERT_TRUE(device().destroy_stream(stream));
}

TEST_P(EmuStream, ThreadsAreUsedAgain) {
  const int threads = GetParam();
  Orders orders;
  int before = 0;
  for (int round = 0; round < 20; ++round) {
    Stream stream = new_stream();
    for (int i = 0; i < 20; ++i)
      ASSERT_TRUE(device().launch(kLog, plan_for(orders, round * 20 + i), 2, threads, stream));
    ASSERT_TRUE(device().destroy_stream(stream));
    if (round == 0) before = emu::Pool::instance().threads();
  }
  EXPECT_EQ(emu::Pool::instance().threads(), before);
  EXPECT_EQ(orders.log.size(), 400u);
}

TEST_P(EmuStream, KernelsOfTwoStreamsThatWaitForEachOtherMakeProgress) {
  const int threads = GetParam();
  Stream one = new_stream(), two = new_stream();
  for (int round = 0; round < 50; ++round) {
    Orders orders;
    ASSERT_TRUE(device().launch(kFirst, plan_for(orders), 2, threads, one));
    ASSERT_TRUE(device().launch(kSecond, plan_for(orders), 2, threads, two));
    ASSERT_TRUE(device().synchronize(one));
    ASSERT_TRUE(device().synchronize(two));
  }
  ASSERT_TRUE(device().destroy_stream(one));
  ASSERT_TRUE(device().destroy_stream(two));
}

INSTANTIATE_TEST_SUITE_P(Threads, EmuStream, testing::Values(1, 3));

TEST(EmuStreams, StreamWaitOrdersTwoStreams) {
  Stream early = new_stream(), late = new_stream();
  for (int round = 0; round < 20; ++round) {
    Orders orders;
    ASSERT_TRUE(device().launch(kWait, plan_for(orders), 1, 1, early));
    ASSERT_TRUE(device().launch(kLog, plan_for(orders, 1), 1, 1, early));
    ASSERT_TRUE(device().stream_wait(late, early));
    ASSERT_TRUE(device().launch(kLog, plan_for(orders, 2), 1, 1, late));
    await_rest();  // unordered, the second log entry would be there by now
    ASSERT_TRUE(device().launch(kOpen, plan_for(orders), 1, 1, nullptr));
    ASSERT_TRUE(device().synchronize(late));
    EXPECT_EQ(orders.log, (std::vector<int>{1, 2}));
  }
  ASSERT_TRUE(device().destroy_stream(early));
  ASSERT_TRUE(device().destroy_stream(late));
}

TEST(EmuStreams, StreamWaitDoesNotWaitForWhatComesLater) {
  Orders orders;
  Stream one = new_stream(), two = new_stream();
  ASSERT_TRUE(device().stream_wait(two, one));
  ASSERT_TRUE(device().launch(kWait, plan_for(orders), 1, 1, one));
  ASSERT_TRUE(device().launch(kLog, plan_for(orders, 7), 1, 1, two));
  ASSERT_TRUE(device().synchronize(two));  // would hang
  EXPECT_EQ(orders.log, std::vector<int>{7});
  orders.gate.store(1);
  ASSERT_TRUE(device().destroy_stream(one));
  ASSERT_TRUE(device().destroy_stream(two));
}

TEST(EmuStreams, AWaitOutlivesTheStreamItWaitsFor) {
  Orders orders;
  Stream late = new_stream();
  for (int round = 0; round < 50; ++round) {
    Stream early = new_stream();
    ASSERT_TRUE(device().launch(kLog, plan_for(orders, round), 1, 1, early));
    ASSERT_TRUE(device().stream_wait(late, early));
    ASSERT_TRUE(device().stream_wait(late, late));
    ASSERT_TRUE(device().destroy_stream(early));
  }
  ASSERT_TRUE(device().destroy_stream(late));
  EXPECT_EQ(orders.log.size(), 50u);
}

TEST(EmuStreams, DestroyWaitsForWhatIsInTheStream) {
  Orders orders;
  Stream stream = new_stream();
  ASSERT_TRUE(device().launch(kWait, plan_for(orders), 1, 1, stream));
  ASSERT_TRUE(device().launch(kLog, plan_for(orders, 1), 2, 2, stream));
  std::thread opener([&] {
    usleep(5000);
    orders.gate.store(1);
  });
  ASSERT_TRUE(device().destroy_stream(stream));
  EXPECT_EQ(orders.log.size(), 1u);
  opener.join();
}

TEST(EmuStreams, ABlockingCopyComesAfterTheDefaultStream) {
  Orders orders;
  int in = 5, out = 0;
  ASSERT_TRUE(device().launch(kWait, plan_for(orders), 1, 1, nullptr));
  ASSERT_TRUE(device().launch(kLog, plan_for(orders, 1), 1, 1, nullptr));
  std::thread opener([&] {
    usleep(5000);
    orders.gate.store(1);
  });
  ASSERT_TRUE(device().copy(&out, &in, sizeof in));
  EXPECT_EQ(orders.log.size(), 1u);
  EXPECT_EQ(out, 5);
  opener.join();
}

TEST(EmuStreams, DefaultStreamsOfTwoDevicesDoNotWaitForEachOther) {
  Orders orders;
  ASSERT_TRUE(device(0).launch(kFirst, plan_for(orders), 2, 1, nullptr));
  ASSERT_TRUE(device(1).launch(kSecond, plan_for(orders), 2, 1, nullptr));  // would hang behind the other
  ASSERT_TRUE(device(1).synchronize(nullptr));
  ASSERT_TRUE(device(0).synchronize(nullptr));
}

TEST(EmuStreams, StreamsOfTwoDevicesCanBeOrdered) {
  Orders orders;
  Stream early = new_stream(0), late = new_stream(1);
  ASSERT_TRUE(device(0).launch(kWait, plan_for(orders), 1, 1, early));
  ASSERT_TRUE(device(0).launch(kLog, plan_for(orders, 1), 1, 1, early));
  ASSERT_TRUE(device(1).stream_wait(late, early));
  ASSERT_TRUE(device(1).launch(kLog, plan_for(orders, 2), 1, 1, late));
  await_rest();
  orders.gate.store(1);
  ASSERT_TRUE(device(1).synchronize(late));
  EXPECT_EQ(orders.log, (std::vector<int>{1, 2}));
  ASSERT_TRUE(device(0).destroy_stream(early));
  ASSERT_TRUE(device(1).destroy_stream(late));
}

TEST(EmuStreams, AnEventStandsForWhatWasBeforeIt) {
  Orders orders, later;
  Stream early = new_stream(), late = new_stream();
  const Event event = *device().create_event();
  ASSERT_TRUE(device().wait_event(late, event));  // never recorded: passes
  ASSERT_TRUE(device().launch(kWait, plan_for(orders), 1, 1, early));
  ASSERT_TRUE(device().launch(kLog, plan_for(orders, 1), 1, 1, early));
  ASSERT_TRUE(device().record(event, early));
  ASSERT_TRUE(device().launch(kWait, plan_for(later), 1, 1, early));
  EXPECT_FALSE(*device().reached(event));
  ASSERT_TRUE(device().wait_event(late, event));
  ASSERT_TRUE(device().launch(kLog, plan_for(orders, 2), 1, 1, late));
  await_rest();
  orders.gate.store(1);
  ASSERT_TRUE(device().synchronize(late));  // would hang if it waited for the last launch, too
  EXPECT_EQ(orders.log, (std::vector<int>{1, 2}));
  EXPECT_TRUE(*device().reached(event));
  later.gate.store(1);
  ASSERT_TRUE(device().record(event, early));
  ASSERT_TRUE(device().destroy_stream(early));
  ASSERT_TRUE(device().wait_event(late, event));  // of a stream that is gone
  ASSERT_TRUE(device().destroy_stream(late));
  device().destroy_event(event);
}

TEST(EmuStreams, AWaitTakesTheEventAsItWasRecordedLast) {
  Orders orders, later;
  Stream one = new_stream(), two = new_stream(), late = new_stream();
  const Event event = *device().create_event();
  ASSERT_TRUE(device().record(event, one));
  ASSERT_TRUE(device().launch(kWait, plan_for(orders), 1, 1, two));
  ASSERT_TRUE(device().launch(kLog, plan_for(orders, 1), 1, 1, two));
  ASSERT_TRUE(device().record(event, two));
  ASSERT_TRUE(device().wait_event(late, event));
  ASSERT_TRUE(device().launch(kWait, plan_for(later), 1, 1, one));
  ASSERT_TRUE(device().record(event, one));  // does not change a wait that was put before
  ASSERT_TRUE(device().launch(kLog, plan_for(orders, 2), 1, 1, late));
  await_rest();
  orders.gate.store(1);
  ASSERT_TRUE(device().synchronize(late));
  EXPECT_EQ(orders.log, (std::vector<int>{1, 2}));
  later.gate.store(1);
  for (Stream stream : {one, two, late}) ASSERT_TRUE(device().destroy_stream(stream));
  device().destroy_event(event);
}

TEST(EmuStreams, CopiesFollowTheStream) {
  constexpr size_t kBytes = 10007;
  Orders orders;
  std::vector<uint8_t> in(kBytes, 3), out(kBytes);
  Stream stream = new_stream(1);
  auto* from = static_cast<uint8_t*>(*device(0).allocate(kBytes));
  auto* to = static_cast<uint8_t*>(*device(1).allocate(kBytes));
  ASSERT_TRUE(device(1).launch(kWait, plan_for(orders), 1, 1, stream));
  ASSERT_TRUE(device(1).copy_async(to, from, kBytes, stream));
  ASSERT_TRUE(device(1).copy_async(out.data(), to, kBytes, stream));
  for (size_t i = 0; i < kBytes; ++i) in[i] = static_cast<uint8_t>(i * 7 + i / 256);
  ASSERT_TRUE(device(0).upload(from, in.data(), kBytes));  // before the copy begins
  orders.gate.store(1);
  ASSERT_TRUE(device(1).synchronize(stream));
  EXPECT_EQ(in, out);
  EXPECT_EQ(device(1).copy_async(to, from, kBytes + 1, stream).code(), Code::invalid_argument);
  EXPECT_TRUE(device(1).copy_async(nullptr, nullptr, 0, stream));
  ASSERT_TRUE(device(1).destroy_stream(stream));
  device(0).release(from);
  device(1).release(to);
}

TEST(EmuStreams, AnUploadDoesNotWaitForTheDefaultStream) {
  Orders orders;
  const int value = 77;
  auto* memory = static_cast<int*>(*device().allocate(sizeof value));
  ASSERT_TRUE(device().launch(kWait, plan_for(orders), 1, 1, nullptr));
  ASSERT_TRUE(device().upload(memory, &value, sizeof value));  // would hang
  EXPECT_EQ(*memory, 77);
  EXPECT_EQ(device().upload(memory, &value, 4097).code(), Code::invalid_argument);
  orders.gate.store(1);
  ASSERT_TRUE(device().synchronize(nullptr));
  device().release(memory);
}

// A message: a copy, then its counter; the other stream reads when the counter says so.
TEST(EmuStreams, WordsAreSignalsBetweenStreams) {
  constexpr int kRounds = 50;
  Stream sender = new_stream(0), receiver = new_stream(1);
  auto* words = static_cast<uint64_t*>(*device().allocate(16));
  uint64_t *sent = words, *taken = words + 1;
  std::vector<int> in(kRounds), out(kRounds);
  int slot = -1;
  for (int i = 0; i < kRounds; ++i) {
    in[i] = 1000 + i;
    ASSERT_TRUE(device(1).wait_value(receiver, sent, i + 1, nullptr));
    ASSERT_TRUE(device(1).copy_async(&out[i], &slot, sizeof slot, receiver));
    ASSERT_TRUE(device(1).write_value(receiver, taken, i + 1));
  }
  for (int i = 0; i < kRounds; ++i) {
    ASSERT_TRUE(device(0).wait_value(sender, taken, i, nullptr));
    ASSERT_TRUE(device(0).copy_async(&slot, &in[i], sizeof slot, sender));
    ASSERT_TRUE(device(0).write_value(sender, sent, i + 1));
  }
  ASSERT_TRUE(device(1).destroy_stream(receiver));
  ASSERT_TRUE(device(0).destroy_stream(sender));
  EXPECT_EQ(in, out);
  device().release(words);
}

TEST(EmuStreams, AWaitForAWordComparesAcrossTheWrapAndEndsWithAnAbort) {
  Stream stream = new_stream();
  uint64_t word = 3;
  uint32_t abort = 0;
  ASSERT_TRUE(device().wait_value(stream, &word, ~uint64_t{0}, nullptr));  // 3 comes after the greatest number
  ASSERT_TRUE(device().synchronize(stream));
  ASSERT_TRUE(device().wait_value(stream, &word, 4, &abort));
  std::thread([&] {
    usleep(5000);
    proto::store_release(&abort, 1u);
  }).join();
  ASSERT_TRUE(device().destroy_stream(stream));
}

TEST(EmuStreams, ManyThreadsLaunchAtOnce) {
  std::vector<std::thread> threads;
  Orders orders[4];
  for (Orders& mine : orders)
    threads.emplace_back([&mine] {
      Stream stream = new_stream();
      for (int i = 0; i < 100; ++i) ASSERT_TRUE(device().launch(kLog, plan_for(mine, i), 2, 1, stream));
      ASSERT_TRUE(device().destroy_stream(stream));
    });
  for (auto& thread : threads) thread.join();
  for (Orders& mine : orders) EXPECT_EQ(mine.log.size(), 100u);
}

TEST(EmuStreams, MisuseIsAnsweredWithASentence) {
  Orders orders;
  int local = 0;
  EXPECT_EQ(device().synchronize(&local).code(), Code::invalid_argument);
  EXPECT_EQ(device().destroy_stream(nullptr).code(), Code::invalid_argument);
  EXPECT_EQ(device().launch(kLog, plan_for(orders), 0, 1, nullptr).code(), Code::invalid_argument);
  EXPECT_EQ(device().launch(kLog, plan_for(orders), 1, -1, nullptr).code(), Code::invalid_argument);
  EXPECT_EQ(device().launch(kLog, plan_for(orders), 1 << 20, 1 << 20, nullptr).code(), Code::invalid_argument);
  EXPECT_EQ(device().prepare(kernel("none", nullptr)).code(), Code::unsupported);
  const Kernel unprepared = kernel("unprepared", [](const EmuBlock&, const proto::Plan&) {});
  EXPECT_EQ(device().launch(unprepared, plan_for(orders), 1, 1, nullptr).code(), Code::internal);
  Stream stream = new_stream();
  ASSERT_TRUE(device().destroy_stream(stream));
  EXPECT_EQ(device().destroy_stream(stream).code(), Code::invalid_argument);
}

// A process that ends while kernels wait for something that never comes must end at once.
TEST(EmuStreamsExit, AKernelThatWaitsForEverDoesNotHoldUpTheEnd) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a new process, not a fork of one with threads
  EXPECT_EXIT(
      {
        static Orders orders;
        Stream stream = new_stream();
        if (!device().launch(kWait, plan_for(orders), 2, 3, stream)) std::exit(2);
        await_rest();  // they wait
        std::exit(0);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace gpucoll::gpu
