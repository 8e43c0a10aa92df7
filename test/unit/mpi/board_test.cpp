// The board on which ranks write what they call.
#include "mpi/board.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

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
