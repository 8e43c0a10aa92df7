// The table of what was used last.
#include "core/comm/recent_table.h"

#include <gtest/gtest.h>

#include "base/hash.h"

namespace {

using gpucoll::hash_combine;
using gpucoll::RecentTable;
using Table = RecentTable<int>;
constexpr int kWays = Table::kWays;

int* find(Table& table, uint64_t hash, int key) {
  return table.find(hash, [&](int entry) { return entry == key; });
}

void put(Table& table, uint64_t hash, int key) { table.make_room(hash) = key; }

TEST(RecentTable, IsEmptyAtFirstAndAfterwards) {
  Table table;
  EXPECT_EQ(find(table, 1, 0), nullptr);
  put(table, 1, 0);
  EXPECT_NE(find(table, 1, 0), nullptr);
  table.forget_all();
  EXPECT_EQ(find(table, 1, 0), nullptr);
}

TEST(RecentTable, FindsByKeyAndNotByHashAlone) {
  Table table;
  put(table, 1, 10);
  put(table, 1, 11);
  ASSERT_NE(find(table, 1, 11), nullptr);
  EXPECT_EQ(*find(table, 1, 11), 11);
  EXPECT_EQ(find(table, 1, 12), nullptr);
  EXPECT_EQ(find(table, 2, 10), nullptr);
}

TEST(RecentTable, WhatWasUsedLongestAgoMakesRoom) {
  Table table;
  for (int i = 0; i < kWays; ++i) put(table, 3, i);
  EXPECT_NE(find(table, 3, 0), nullptr);
  put(table, 3, kWays);
  EXPECT_EQ(find(table, 3, 1), nullptr);
  for (const int key : {0, 2, 3, kWays}) EXPECT_NE(find(table, 3, key), nullptr) << key;
}

TEST(RecentTable, WhatIsForgottenMakesRoomFirst) {
  Table table;
  for (int i = 0; i < kWays; ++i) put(table, 3, i);
  table.forget(*find(table, 3, 2));
  EXPECT_EQ(find(table, 3, 2), nullptr);
  put(table, 3, 9);
  for (const int key : {0, 1, 3, 9}) EXPECT_NE(find(table, 3, key), nullptr) << key;
}

// As programs use them: buffers of a few sizes, one after another, in turn.
TEST(RecentTable, ADozenBuffersInTurnAreFound) {
  for (const uint64_t stride : {512u, 4096u, 1u << 20, 32u << 20}) {
    Table table;
    int found = 0;
    for (int round = 0; round < 3; ++round) {
      for (int i = 0; i < 12; ++i) {
        const uint64_t from = 0x7f0000000000 + static_cast<uint64_t>(i) * stride, to = from + (1ull << 39);
        const uint64_t hash = hash_combine(hash_combine(hash_combine(0, from), to), 1000);
        const bool has = find(table, hash, i);
        if (!has) put(table, hash, i);
        found += has;
      }
    }
    EXPECT_GE(found, 2 * 10) << stride;
  }
}

}  // namespace
