// Fault latch, liveness, what ranks may use of devices they share.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "core/peer/fault.h"
#include "core/peer/heart.h"
#include "core/peer/liveness.h"
#include "core/peer/peers.h"

using namespace gpucoll;
using namespace gpucoll::core;

TEST(Fault, LatchesTheFirstAndTellsKernelsAndPeers) {
  Fault fault;
  proto::FaultLatch latch = {};
  proto::ControlPage page = {};
  fault.attach(&latch, &page);
  EXPECT_TRUE(fault.status().ok());
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, i] { fault.raise(Status::error(Code::aborted, "number %d", i)); });
  for (auto& t : threads) t.join();
  EXPECT_TRUE(fault.raised());
  EXPECT_EQ(latch.abort, 1u);
  EXPECT_EQ(page.fault, static_cast<uint32_t>(Code::aborted));
  std::string first = fault.status().what();
  EXPECT_EQ(first, page.fault_text);
  fault.raise(Status::error(Code::remote, "later"));
  EXPECT_EQ(fault.status().what(), first);
}

// A program that finds its stream ended by the latch asks the communicator at once, and must not hear that all is well.
TEST(Fault, TellsTheHostBeforeItEndsKernels) {
  for (int round = 0; round < 1000; ++round) {
    Fault fault;
    proto::FaultLatch latch = {};
    proto::ControlPage page = {};
    fault.attach(&latch, &page);
    std::atomic<bool> spinning = false;
    bool told = false;
    std::thread program([&] {
      spinning = true;
      while (!__atomic_load_n(&latch.abort, __ATOMIC_ACQUIRE)) {
      }
      told = fault.raised();
    });
    while (!spinning) std::this_thread::yield();
    fault.raise(Status::error(Code::aborted, "round %d", round));
    program.join();
    ASSERT_TRUE(told) << "round " << round;
  }
}

// Of what a third rank has done, ranks pass the sentence on; of themselves they say that they gave up.
TEST(Fault, TellsPeersOfTheFirstCause) {
  const std::string died = "rank 2 (process 13) died";
  for (const bool passed_on : {false, true}) {
    Fault fault;
    proto::ControlPage page = {};
    fault.attach(nullptr, &page, "rank 1 (process 12)");
    Status why = Status::error(Code::aborted, "%s", died.c_str());
    fault.raise(passed_on ? std::move(why).blaming() : std::move(why));
    EXPECT_STREQ(page.fault_text,
                 ((passed_on ? "" : "rank 1 (process 12) gave up: the communicator was aborted: ") + died).c_str());
    EXPECT_EQ(fault.status().what(), died);
    EXPECT_EQ(fault.status().blames(), passed_on);
  }
}

uint64_t ago(std::chrono::milliseconds time) {
  const auto then = std::chrono::steady_clock::now() - time;
  return static_cast<uint64_t>(std::chrono::nanoseconds(then.time_since_epoch()).count());
}

TEST(Heart, ShowsThatAProcessDoesNotRun) {
  using std::chrono::milliseconds;
  const auto now = std::chrono::steady_clock::now();
  const auto lacks = [](std::chrono::nanoseconds silence, int ms) {
    return silence < milliseconds(ms) || silence > milliseconds(ms + 5000);
  };
  gc_pulse pulse = {};
  EXPECT_EQ(Heart::silence(pulse, now).count(), 0) << "where nobody beats";
  pulse.beat_ns = ago(milliseconds(100));
  EXPECT_EQ(Heart::silence(pulse, now).count(), 0);
  pulse.pause_ns = 2'000'000'000;
  pulse.pause_end_ns = ago(milliseconds(200));
  EXPECT_EQ(Heart::silence(pulse, now - milliseconds(100)).count(), 0) << "a pause that was over before";
  EXPECT_FALSE(lacks(Heart::silence(pulse, now - milliseconds(1000)), 2000));
  pulse.beat_ns = ago(milliseconds(3000));
  EXPECT_FALSE(lacks(Heart::silence(pulse, now), 3000));
}

// A beat that comes late is how a process notices that it was stopped.
TEST(Heart, ClockStandsStillWhileItDoesNotBeat) {
  const auto clocks_apart = [] {
    return std::chrono::steady_clock::now().time_since_epoch() - RunningClock::now().time_since_epoch();
  };
  const auto before = clocks_apart();
  Heart::beat();
  std::this_thread::sleep_for(std::chrono::milliseconds(800));
  const auto unnoticed = clocks_apart();
  EXPECT_GE(unnoticed - before, std::chrono::milliseconds(295));
  Heart::beat();
  EXPECT_GE(clocks_apart(), unnoticed);
  gc_pulse pulse = {};
  Heart::show(&pulse);
  EXPECT_GE(pulse.pause_ns, 800'000'000u);
  EXPECT_EQ(pulse.pause_end_ns, pulse.beat_ns);
  Heart::rest();
  EXPECT_GE(clocks_apart(), unnoticed) << "and goes on from there";
}

// Beats that come late on a busy machine do not hide that the process was stopped.
TEST(Heart, ShowsTheLongerPause) {
  const auto pause = [](int ms) {
    const auto begin = std::chrono::steady_clock::now();
    std::this_thread::sleep_for(std::chrono::milliseconds(ms));
    Heart::beat();
    return std::chrono::steady_clock::now() - begin;
  };
  Heart::beat();
  pause(1200);
  while (pause(600) >= std::chrono::milliseconds(1200)) pause(1200 * 4);  // so busy is this machine
  gc_pulse pulse = {};
  Heart::show(&pulse);
  EXPECT_GE(pulse.pause_ns, 1'200'000'000u);
  EXPECT_LT(pulse.pause_end_ns, pulse.beat_ns);
  Heart::rest();
}

TEST(Liveness, SeesAProcessThatEndedEvenBeforeItIsReaped) {
  int pipe_fds[2];
  ASSERT_EQ(pipe(pipe_fds), 0);
  pid_t child = fork();
  if (child == 0) {
    close(pipe_fds[1]);
    char byte;
    _exit(read(pipe_fds[0], &byte, 1) < 0);
  }
  close(pipe_fds[0]);
  Liveness watch(child);
  EXPECT_TRUE(watch.alive());
  close(pipe_fds[1]);
  for (int i = 0; i < 5000 && watch.alive(); ++i) usleep(1000);
  EXPECT_FALSE(watch.alive());
  waitpid(child, nullptr, 0);
  EXPECT_FALSE(Liveness(child).alive());
  EXPECT_TRUE(Liveness(getpid()).alive());
}

namespace {

// A rank for each device, which runs so many blocks at once.
std::vector<proto::PeerInfo> ranks_on(const std::vector<int>& devices, int blocks) {
  std::vector<proto::PeerInfo> infos(devices.size());
  for (size_t r = 0; r < devices.size(); ++r) {
    infos[r].device_uuid[0] = static_cast<uint8_t>(devices[r]);
    infos[r].resident_blocks = static_cast<uint16_t>(blocks);
  }
  return infos;
}

}  // namespace

// Kernels of ranks that share a device wait for each other: all must run at once.
TEST(Peers, ShareTheBlocksOfADevice) {
  EXPECT_EQ(blocks_for_each(ranks_on({0, 1, 2}, 132)), 132);
  EXPECT_EQ(blocks_for_each(ranks_on({0, 0}, 132)), 33);
  EXPECT_EQ(blocks_for_each(ranks_on({0, 1, 2, 1, 1}, 132)), 22);
  EXPECT_EQ(blocks_for_each(ranks_on({0, 0, 0, 0, 0, 0, 0, 0}, 132)), 8);
  EXPECT_EQ(blocks_for_each(ranks_on({0, 0, 0}, 3)), 1);
  EXPECT_EQ(blocks_for_each(ranks_on({0, 0, 0}, 2)), 0);
  auto unequal = ranks_on({0, 0, 1}, 64);
  unequal[2].resident_blocks = 7;
  EXPECT_EQ(blocks_for_each(unequal), 7);
}
