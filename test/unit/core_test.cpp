// Arrival board, fault latch, liveness.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "core/board.h"
#include "core/fault.h"
#include "core/liveness.h"

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
