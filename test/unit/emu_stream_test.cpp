// Streams of the emulated device: order, progress side by side, many launches.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "gpu/device.h"
#include "gpu/emu/crew.h"
#include "gpu/emu/pool.h"

namespace gpucoll::gpu {
namespace {

Device& device() { return **emu_platform().open(0); }

Stream new_stream() {
  auto stream = device().create_stream();
  EXPECT_TRUE(stream);
  return *stream;
}

// What the kernels below are told, through the plan's pointer.
struct Orders {
  std::vector<int> log;                         // written by thread 0 of block 0: the queue must keep launches apart
  std::array<std::atomic<int>, 512> entered{};  // threads of the launch with this value that have begun
  std::atomic<int> gate{0}, other_gate{0};
  std::atomic<int> wrong{0};
};

proto::Plan plan_for(Orders& orders, uint64_t value = 0) {
  proto::Plan plan{};
  plan.done_word = reinterpret_cast<uint64_t*>(&orders);
  plan.done_value = value;
  return plan;
}
Orders& orders_of(const proto::Plan& plan) { return *reinterpret_cast<Orders*>(plan.done_word); }

// Appends the plan's value; checks that the launch is alone and all of its threads are there.
void log_value(const EmuBlock& block, const proto::Plan& plan) {
  Orders& orders = orders_of(plan);
  const emu::Crew crew(block);
  const int all = block.n_blocks * block.n_threads;
  if (crew.size() != block.n_threads || crew.rank() != block.thread) ++orders.wrong;
  std::atomic<int>& entered = orders.entered[plan.done_value];
  entered.fetch_add(1);
  if (crew.any(block.thread == block.n_threads - 1) != true) ++orders.wrong;
  while (entered.load() < all) proto::pause();  // all threads of a launch run at once
  crew.sync();
  if (block.block == 0 && block.thread == 0) orders.log.push_back(static_cast<int>(plan.done_value));
  crew.sync();
}

void open_gate(const EmuBlock&, const proto::Plan& plan) { orders_of(plan).gate.store(1); }
void wait_for_gate(const EmuBlock&, const proto::Plan& plan) {
  while (orders_of(plan).gate.load() == 0) proto::pause();
}
// Two kernels that each wait for the other.
void meet_first(const EmuBlock&, const proto::Plan& plan) {
  orders_of(plan).other_gate.store(1);
  while (orders_of(plan).gate.load() == 0) proto::pause();
}
void meet_second(const EmuBlock&, const proto::Plan& plan) {
  while (orders_of(plan).other_gate.load() == 0) proto::pause();
  orders_of(plan).gate.store(1);
}

Kernel kernel(const char* name, void (*function)(const EmuBlock&, const proto::Plan&)) {
  return {name, nullptr, function};
}
const Kernel kLog = kernel("log", log_value), kOpen = kernel("open", open_gate), kWait = kernel("wait", wait_for_gate),
             kFirst = kernel("first", meet_first), kSecond = kernel("second", meet_second);

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
    // Unordered, the second log entry would be there by now nearly always.
    if (round < 3) usleep(20000);
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
  EXPECT_EQ(device().launch(kernel("none", nullptr), plan_for(orders), 1, 1, nullptr).code(), Code::unsupported);
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
        usleep(10000);
        std::exit(0);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace gpucoll::gpu
