// The board on which ranks write what they call.
#include "mpi/board.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstring>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "../../resources.h"
#include "mpi/remote_process.h"

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

// ---- the copy of a board of another node ----

namespace {

using coll::RemoteProcess;
using proto::BoardMessage;

constexpr BoardKey kKey = {{12345, 99}};

struct Message {
  std::vector<uint8_t> bytes;
  template <class T>
  Message& add(const T& what) {
    const auto* const from = reinterpret_cast<const uint8_t*>(&what);
    bytes.insert(bytes.end(), from, from + sizeof what);
    return *this;
  }
};

bool take(RemoteProcess& process, BoardMessage kind, const Message& message) {
  return process.take(kind, message.bytes.data(), message.bytes.size());
}

Message stores(const BoardKey& key, uint32_t offset, uint32_t bytes, uint64_t word) {
  Message message;
  return message.add(key).add(proto::BoardPiece{offset, bytes}).add(word);
}

constexpr uint32_t kDecided = offsetof(gc_board_entry, orders[0].decided);

}  // namespace

TEST(RemoteProcess, ShowsWhatHasBeenStored) {
  auto copy = Board::create_copy();
  ASSERT_TRUE(copy.ok());
  RemoteProcess process(*std::move(copy));
  EXPECT_TRUE(take(process, BoardMessage::kStores, stores(kKey, kDecided, 8, 7)));
  const gc_board_entry* const entry = process.board().find(kKey);
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(entry->orders[0].decided, 7u);
  EXPECT_TRUE(take(process, BoardMessage::kReleased, Message().add(kKey)));
  EXPECT_TRUE(take(process, BoardMessage::kReleased, Message().add(kKey)));  // both sides may free it
  EXPECT_TRUE(process.board().is_gone(kKey));
  EXPECT_TRUE(take(process, BoardMessage::kEnded, Message().add(uint64_t{1})));
  EXPECT_TRUE(process.board().has_ended());
}

// A process that runs out of descriptors can still hear of another one.
TEST(RemoteProcess, NeedsNoDescriptor) {
  EXPECT_EQ("made", gpucoll_test::said_in_child([]() -> std::string {
              rlimit before;
              getrlimit(RLIMIT_NOFILE, &before);
              const rlimit none = {0, before.rlim_max};
              setrlimit(RLIMIT_NOFILE, &none);
              auto copy = Board::create_copy();
              setrlimit(RLIMIT_NOFILE, &before);
              if (!copy) return copy.status().what();
              RemoteProcess process(*std::move(copy));
              const bool takes = take(process, BoardMessage::kStores, stores(kKey, kDecided, 8, 7));
              return takes && process.board().find(kKey) ? "made" : "not found";
            }));
}

TEST(RemoteProcess, TakesTheGreaterNumberOfAnArrival) {
  auto copy = Board::create_copy();
  ASSERT_TRUE(copy.ok());
  RemoteProcess process(*std::move(copy));
  proto::BoardArrivals came = {{kKey.word[0], kKey.word[1]}, GC_ORDER_BLOCKING, 0, 0, {}};
  for (const uint64_t number : {3u, 19u, 3u}) {
    came.arrivals[3] = gc_arrival(number, GC_FUNCTION_bcast, GC_KIND_HOST);
    EXPECT_TRUE(take(process, BoardMessage::kCome, Message().add(came)));
  }
  EXPECT_EQ(gc_arrival_number(process.board().find(kKey)->orders[GC_ORDER_BLOCKING].lines[3].arrival), 19u);
}

// A stopped process, and a host without power, end no connection.
TEST(RemoteProcess, AnswersAreNotWaitedForWithoutEnd) {
  auto copy = Board::create_copy();
  ASSERT_TRUE(copy.ok());
  RemoteProcess process(*std::move(copy));
  EXPECT_FALSE(process.raise(kKey, GC_ORDER_BLOCKING, 3, 5).has_value());
  EXPECT_FALSE(process.ask_number(kKey).has_value());
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  std::optional<RemoteProcess::Place> its;
  while (!its && std::chrono::steady_clock::now() < end) {
    its = process.raise(kKey, GC_ORDER_BLOCKING, 3, 5);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ASSERT_TRUE(its.has_value());
  EXPECT_EQ(*its, RemoteProcess::Place::behind);
  EXPECT_EQ(process.ask_number(kKey), 0u);
}

TEST(RemoteProcess, BelievesNothing) {
  auto copy = Board::create_copy();
  ASSERT_TRUE(copy.ok());
  RemoteProcess process(*std::move(copy));
  for (const uint32_t offset : {0u, 8u, kDecided + 4, uint32_t{sizeof(gc_board_entry)}, ~7u})
    EXPECT_FALSE(take(process, BoardMessage::kStores, stores(kKey, offset, 8, 1))) << offset;
  for (const uint32_t bytes : {4u, 16u, ~7u})
    EXPECT_FALSE(take(process, BoardMessage::kStores, stores(kKey, kDecided, bytes, 1))) << bytes;
  EXPECT_FALSE(take(process, BoardMessage::kStores, stores({{1, 0}}, kDecided, 8, 1)));
  EXPECT_FALSE(take(process, BoardMessage::kHello, {}));
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    Message message;
    if (random() % 2) message.add(kKey);
    while (random() % 4) message.add(static_cast<uint64_t>(random() % 3 ? random() % 4096 * 8 : random()));
    if (random() % 4 == 0) message.bytes.resize(random() % 64);
    take(process, static_cast<BoardMessage>(random() % 12), message);
  }
}
