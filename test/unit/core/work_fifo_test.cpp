// The work FIFO: pieces in a row, never over what an unfinished launch may read, any number of times round.
#include "core/launch/work_fifo.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

namespace gpucoll::core {
namespace {

using proto::WorkItem;

gpu::Device& device() { return **gpu::emu_platform().open(0); }
std::unique_ptr<WorkFifo> fifo_of(size_t n_items) {
  auto fifo = WorkFifo::create(device(), n_items);
  EXPECT_TRUE(fifo);
  return *std::move(fifo);
}

TEST(WorkFifo, NeverOverrunsWhatIsInUse) {
  constexpr size_t kItems = 100;
  struct Piece {
    uint64_t launch;
    const WorkItem* kernel;
    size_t n;
  };
  auto fifo = fifo_of(kItems);
  std::mt19937 random(1);
  std::deque<Piece> in_use;
  uint64_t launch = 0, done = 0, refused = 0;
  for (int round = 0; round < 20000; ++round) {
    const size_t n = 1 + random() % (round % 50 ? 40 : kItems);
    WorkItem* items = fifo->reserve(n, launch + 1, done);
    if (items) {
      ++launch;
      const WorkItem* kernel = fifo->kernel_address(items);
      for (size_t i = 0; i < n; ++i) items[i].collective.count = launch;
      in_use.push_back({launch, kernel, n});
    } else {
      ++refused;
      ASSERT_LT(done, launch) << "refused although nothing is in use";
    }
    if (!items || random() % 3 == 0) {  // the oldest launch ends: its items are still what was written
      if (in_use.empty()) continue;
      for (size_t i = 0; i < in_use.front().n; ++i)
        ASSERT_EQ(in_use.front().kernel[i].collective.count, in_use.front().launch);
      done = in_use.front().launch;
      in_use.pop_front();
    }
  }
  EXPECT_GT(refused, 1000u);
}

TEST(WorkFifo, TakesAPieceOfItsWholeSizeWhereverItStood) {
  auto fifo = fifo_of(8);
  ASSERT_TRUE(fifo->reserve(5, 1, 0));
  EXPECT_FALSE(fifo->reserve(8, 2, 0));
  EXPECT_TRUE(fifo->reserve(8, 2, 1));
  EXPECT_FALSE(fifo->reserve(1, 3, 1));
}

TEST(WorkFifo, SkipsTheRestBeforeTheEnd) {
  auto fifo = fifo_of(8);
  WorkItem* first = fifo->reserve(3, 1, 0);
  ASSERT_TRUE(fifo->reserve(3, 2, 0));
  EXPECT_FALSE(fifo->reserve(3, 3, 0));  // 2 before the end, none in the beginning
  EXPECT_EQ(fifo->reserve(3, 3, 1), first);
  EXPECT_FALSE(fifo->reserve(1, 4, 1));
}

}  // namespace
}  // namespace gpucoll::core
