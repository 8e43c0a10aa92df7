// Planner, arrival board, fault latch, liveness.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "core/board.h"
#include "core/fault.h"
#include "core/liveness.h"
#include "core/planner.h"

using namespace gpucoll;
using namespace gpucoll::core;

namespace {

gpu::Kernel ring_a = {"ring a", nullptr, nullptr}, ring_b = {"ring b", nullptr, nullptr},
            one_shot_a = {"one-shot a", nullptr, nullptr};

Task ring_task(const gpu::Kernel& kernel, uint64_t count, gpu::Stream stream = nullptr) {
  return {&kernel, nullptr, nullptr, nullptr, count, 4, stream};
}

Task task_a(uint64_t count) { return {&ring_a, &one_shot_a, nullptr, nullptr, count, 4, nullptr}; }

CommShape ring_shape(int n_ranks, int n_channels) { return {n_ranks, n_channels, 512, false, 1 << 20}; }
CommShape mesh_shape(int n_ranks) { return {n_ranks, 24, 512, true, 1 << 20}; }

}  // namespace

TEST(Tuner, GivesSmallRingsOneChannelAndLargeOnesAll) {
  CommShape shape = ring_shape(4, 24);
  EXPECT_EQ(choose(4, shape).channels, 1);
  EXPECT_EQ(choose(1ull << 32, shape).channels, 24);
  int last = 0;
  for (uint64_t bytes = 1; bytes < (64ull << 20); bytes *= 2) {
    Choice choice = choose(bytes, shape);
    EXPECT_EQ(choice.algorithm, Algorithm::ring);
    EXPECT_GE(choice.channels, last);
    last = choice.channels;
  }
}

TEST(Tuner, SendsSmallMessagesAtOnceAndNeverMoreThanAMeshHolds) {
  for (int n : {2, 3, 4, 8, 16}) {
    CommShape shape = mesh_shape(n);
    shape.one_shot_bytes = 1ull << 40;
    for (uint64_t bytes = 1; bytes < (4ull << 20); bytes += 1 + bytes / 7) {
      Choice choice = choose(bytes, shape);
      if (choice.algorithm != Algorithm::one_shot) continue;
      EXPECT_LE(choice.channels, proto::kMeshChannels);
      EXPECT_LE((bytes + static_cast<uint64_t>(choice.channels) - 1) / static_cast<uint64_t>(choice.channels) + 128,
                proto::kMeshChannelData);
      EXPECT_GE(choice.threads, 32);
      EXPECT_LE(choice.threads, shape.threads);
    }
    EXPECT_EQ(choose(8, shape).algorithm, Algorithm::one_shot);
    EXPECT_EQ(choose(64 << 20, shape).algorithm, Algorithm::ring);
    shape.one_shot_bytes = 0;
    EXPECT_EQ(choose(8, shape).algorithm, Algorithm::ring);
  }
}

TEST(Planner, SharesAPlanOnlyAmongOneKernelAndOneStream) {
  int s1 = 0, s2 = 0;
  uint32_t flag = 0;
  auto launches = plan({ring_task(ring_a, 1, &s1), ring_task(ring_a, 1 << 20, &s1), ring_task(ring_b, 1, &s1),
                        ring_task(ring_a, 1, &s1), ring_task(ring_a, 1, &s2), ring_task(ring_a, 0, &s1)},
                       ring_shape(2, 4), &flag);
  ASSERT_EQ(launches.size(), 4u);
  EXPECT_EQ(launches[0].plan.n_items, 2u);
  EXPECT_EQ(launches[0].plan.channel_mask, 0xfu);
  EXPECT_EQ(launches[0].plan.items[0].n_channels, 1u);
  EXPECT_EQ(launches[0].blocks(), 4);
  EXPECT_EQ(launches[3].stream, &s2);
  EXPECT_EQ(flag, 0u);
}

TEST(Planner, CutsAtTheKernelArguments) {
  std::vector<Task> tasks(1000, ring_task(ring_a, 5));
  uint32_t flag = 0;
  auto launches = plan(tasks, ring_shape(3, 2), &flag);
  size_t items = 0;
  for (auto& launch : launches) {
    EXPECT_LE(launch.plan.n_items, static_cast<uint32_t>(proto::kMaxItems));
    items += launch.plan.n_items;
  }
  EXPECT_EQ(items, tasks.size());
  EXPECT_EQ(launches.size(), (tasks.size() + proto::kMaxItems - 1) / proto::kMaxItems);
}

TEST(Planner, CountsMeshOperationsAndLeavesZeroOut) {
  uint32_t flag = 0xfffffffd;
  auto launches = plan({task_a(1), task_a(64 << 20), task_a(0), task_a(3), task_a(2)}, mesh_shape(4), &flag);
  ASSERT_EQ(launches.size(), 3u);
  EXPECT_EQ(launches[0].kernel, &one_shot_a);
  EXPECT_EQ(launches[0].plan.items[0].flag, 0xfffffffeu);
  EXPECT_EQ(launches[1].kernel, &ring_a);
  EXPECT_EQ(launches[1].plan.items[0].chunk_bytes, 0u);
  EXPECT_EQ(launches[2].plan.items[0].flag, 0xffffffffu);
  EXPECT_EQ(launches[2].plan.items[1].flag, 2u);  // another parity than the one before
  EXPECT_EQ(flag, 2u);
}

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
  entry->lines[1].count = 7;
  __atomic_store_n(&entry->lines[1].sequence, uint64_t{1}, __ATOMIC_RELEASE);
  EXPECT_EQ(__atomic_load_n(&seen->lines[1].sequence, __ATOMIC_ACQUIRE), 1u);
  EXPECT_EQ(seen->lines[1].count, 7u);
  mine->release(entry);
  EXPECT_EQ(other->find(key), nullptr);
  EXPECT_EQ(mine->claim(key)->lines[1].sequence, 0u);
}

TEST(Board, SurvivesCollisionsAndSaysWhenFull) {
  auto board = Board::create();
  ASSERT_TRUE(board.ok());
  std::vector<gc_board_entry*> entries;
  for (uint64_t i = 0; i < GC_BOARD_PROBE; ++i) {
    entries.push_back(board->claim({{7, 1 + 2 * i}}));
    ASSERT_NE(entries.back(), nullptr);
  }
  EXPECT_EQ(board->claim({{7, 1001}}), nullptr);
  for (uint64_t i = 0; i < GC_BOARD_PROBE; ++i) EXPECT_EQ(board->find({{7, 1 + 2 * i}}), entries[i]);
  board->release(entries[5]);
  EXPECT_NE(board->claim({{7, 1001}}), nullptr);
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
