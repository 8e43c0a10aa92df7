// Arrival board, fault latch, liveness, what ranks may use of devices they share.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "core/peer/fault.h"
#include "core/peer/heart.h"
#include "core/peer/liveness.h"
#include "core/peer/peers.h"
#include "mpi/board.h"

using namespace gpucoll;
using namespace gpucoll::core;

TEST(Board, ShowsOthersWhatWasPublished) {
  auto mine = Board::create();
  ASSERT_TRUE(mine.ok());
  auto other = Board::open(mine->name());
  ASSERT_TRUE(other.ok());
  BoardKey key = {{12345, 99}};
  EXPECT_EQ(other->find(key), nullptr);
  gc_board_entry* entry = mine->claim(key);
  ASSERT_NE(entry, nullptr);
  const gc_board_entry* seen = other->find(key);
  ASSERT_NE(seen, nullptr);
  entry->orders[GC_ORDER_BLOCKING].lines[1].count = 7;
  const uint64_t arrival = gc_arrival(1, GC_FUNCTION_bcast, GC_KIND_DEVICE);
  __atomic_store_n(&entry->orders[GC_ORDER_BLOCKING].lines[1].arrival, arrival, __ATOMIC_RELEASE);
  const uint64_t seen_arrival = __atomic_load_n(&seen->orders[GC_ORDER_BLOCKING].lines[1].arrival, __ATOMIC_ACQUIRE);
  EXPECT_EQ(gc_arrival_number(seen_arrival), 1u);
  EXPECT_EQ(gc_arrival_function(seen_arrival), uint32_t{GC_FUNCTION_bcast});
  EXPECT_EQ(gc_arrival_kind(seen_arrival), uint32_t{GC_KIND_DEVICE});
  EXPECT_EQ(seen->orders[GC_ORDER_BLOCKING].lines[1].count, 7u);
}

// A late reader must not take a communicator that is freed for one that is not there yet.
TEST(Board, KnowsWhatWasReleased) {
  auto mine = Board::create();
  ASSERT_TRUE(mine.ok());
  auto other = Board::open(mine->name());
  ASSERT_TRUE(other.ok());
  const BoardKey first = {{12345, 99}}, second = {{12345, 101}};
  gc_board_entry* entry = mine->claim(first);
  ASSERT_NE(entry, nullptr);
  entry->orders[GC_ORDER_BLOCKING].lines[1].arrival = gc_arrival(1, GC_FUNCTION_bcast, GC_KIND_HOST);
  entry->orders[GC_ORDER_NONBLOCKING].failed = 1;
  mine->release(entry);
  const gc_board_entry* seen = other->find(first);
  ASSERT_NE(seen, nullptr);
  EXPECT_NE(seen->left, 0u);
  EXPECT_EQ(gc_arrival_number(seen->orders[GC_ORDER_BLOCKING].lines[1].arrival), 1u);

  EXPECT_FALSE(other->is_gone(second));
  entry->device_hints[GC_FORM_BLOCKING] = 5;
  EXPECT_EQ(mine->claim(second), entry);
  EXPECT_EQ(other->find(first), nullptr);
  EXPECT_TRUE(other->is_gone(first));
  EXPECT_FALSE(other->is_gone(second));
  ASSERT_NE(other->find(second), nullptr);
  EXPECT_EQ(entry->device_hints[GC_FORM_BLOCKING], 0u);
  EXPECT_EQ(entry->left, 0u);
  EXPECT_EQ(entry->orders[GC_ORDER_NONBLOCKING].failed, 0u);
  EXPECT_EQ(entry->orders[GC_ORDER_BLOCKING].lines[1].arrival, 0u);
}

TEST(Board, SurvivesCollisionsAndSaysWhenFull) {
  auto board = Board::create();
  ASSERT_TRUE(board.ok());
  std::vector<gc_board_entry*> entries;
  for (uint64_t i = 0; i < 2 * GC_BOARD_PROBE; ++i) {
    entries.push_back(board->claim({{7, 1 + 2 * i}}));
    ASSERT_NE(entries.back(), nullptr);
  }
  EXPECT_EQ(board->claim({{7, 1001}}), nullptr);
  for (uint64_t i = 0; i < 2 * GC_BOARD_PROBE; ++i) EXPECT_EQ(board->find({{7, 1 + 2 * i}}), entries[i]);
  board->release(entries[5]);
  EXPECT_EQ(board->claim({{7, 1001}}), entries[5]);
  EXPECT_EQ(board->find({{7, 1001}}), entries[5]);
}

// One after another: few entries, and all of them are known to be gone.
TEST(Board, TouchesFewEntriesHoweverManyComeAndGo) {
  auto board = Board::create();
  ASSERT_TRUE(board.ok());
  std::set<gc_board_entry*> used;
  const auto key = [](uint64_t i) { return BoardKey{{i * 0x9e3779b97f4a7c15u, 2 * i + 1}}; };
  constexpr uint64_t many = 20000;
  for (uint64_t i = 0; i < many; ++i) {
    gc_board_entry* const entry = board->claim(key(i));
    ASSERT_NE(entry, nullptr);
    EXPECT_EQ(board->find(key(i)), entry);
    EXPECT_FALSE(board->is_gone(key(i)));
    used.insert(entry);
    board->release(entry);
  }
  EXPECT_LE(used.size(), size_t{GC_BOARD_NEAR});
  for (uint64_t i = 0; i < many; ++i) EXPECT_TRUE(board->is_gone(key(i))) << i;
  EXPECT_FALSE(board->is_gone(key(many)));
}

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
  for (int round = 0; round < 200; ++round) {
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
    infos[r].resident_blocks = blocks;
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
