// Copies by a queue: those that come together share a launch, and small ones that follow each other take none.
#include "mpi/staging/copy_queue.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <thread>

#include "../forwarding_device.h"
#include "mpi/staging/packing.h"

namespace gpucoll::coll {
namespace {

class Device final : public gpucoll_test::ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  Status launch(const gpu::Kernel& kernel, const proto::Plan& plan, int blocks, int threads,
                gpu::Stream stream) override {
    ++launches;
    this->blocks = blocks;
    if (fails) return Status::error(Code::device, "no launch today");
    return ForwardingDevice::launch(kernel, plan, blocks, threads, stream);
  }
  int launches = 0, blocks = 0;  // of the last one
  bool fails = false;
};

// The kernel addresses of the emulated device are the host's.
class CopyQueueTest : public testing::Test {
 protected:
  void SetUp() override {
    word_ = *device_.allocate_host(sizeof(uint64_t));
    queue_ =
        *CopyQueue::create(device_, {static_cast<const uint64_t*>(word_.host), static_cast<uint64_t*>(word_.kernel)});
    from_ = static_cast<uint8_t*>(*device_.allocate(kBytes));
    to_ = static_cast<uint8_t*>(*device_.allocate(kBytes));
  }
  Result<uint64_t> add(size_t at, size_t bytes, bool to_host = false) {
    std::vector<proto::PackItem> items;
    append_copy(&items, to_ + at, from_ + at, bytes);
    return queue_->add(items, to_host);
  }
  void wait(uint64_t number) {
    for (;;) {
      queue_->launch();
      const Result<bool> ended = queue_->ended(number);
      ASSERT_TRUE(ended) << ended.status().what();
      if (*ended) return;
      std::this_thread::yield();
    }
  }
  void copy_and_compare(size_t at, size_t bytes, int value) {
    std::memset(from_ + at, value, bytes);
    wait(*add(at, bytes));
    ASSERT_EQ(std::memcmp(from_ + at, to_ + at, bytes), 0);
  }

  template <class Copy>
  void copy_until_launches_are_saved(const Copy& copy) {
    constexpr int kCopies = 60, kMost = 100000;
    int copies = 0;
    for (; copies < kMost && (copies < kCopies || device_.launches == copies); ++copies) copy(copies);
    EXPECT_LT(device_.launches, copies);
  }

  static constexpr size_t kBytes = size_t{1} << 20;
  Device device_{**gpu::emu_platform().open(0)};
  gpu::HostBlock word_;
  std::unique_ptr<CopyQueue> queue_;
  uint8_t *from_ = nullptr, *to_ = nullptr;
};

TEST_F(CopyQueueTest, LaunchesTogetherWhatComesTogether) {
  std::memset(from_, 7, kBytes);
  uint64_t last = 0;
  for (size_t i = 0; i < 10; ++i) last = *add(i * 1000, 999, i % 2 == 0);
  EXPECT_FALSE(*queue_->ended(last));
  wait(last);
  EXPECT_EQ(device_.launches, 1);
  for (size_t i = 0; i < 10000; ++i) ASSERT_EQ(to_[i], i % 1000 == 999 ? 0 : 7) << i;
}

TEST_F(CopyQueueTest, TakesMoreThanFitIntoALaunch) {
  std::memset(from_, 9, kBytes);
  uint64_t last = 0;
  for (size_t i = 0; i < 100; ++i) last = *add(i * 64, 64);
  wait(last);
  EXPECT_GT(device_.launches, 1);
  for (size_t i = 0; i < 6400; ++i) ASSERT_EQ(to_[i], 9) << i;
}

// RESIDENT_US is long in these tests' environment; but who knows how long a busy machine takes for a copy.
TEST_F(CopyQueueTest, NeedsNoLaunchForSmallCopiesThatFollowEachOther) {
  copy_until_launches_are_saved(
      [&](int i) { copy_and_compare(static_cast<size_t>(i % 200) * 8, i % 3 ? 8 : 4096, i); });
}

TEST_F(CopyQueueTest, NeedsNoLaunchForLargerCopiesThatFollowEachOther) {
  copy_until_launches_are_saved([&](int i) { copy_and_compare(static_cast<size_t>(i % 200) * 8, 300000, i); });
}

// Every second byte of what lies there, to consecutive ones, and what comes together.
TEST_F(CopyQueueTest, NeedsNoLaunchForTypesAndForSeveralCopies) {
  constexpr size_t kTaken = 5000;
  TypeLayout gaps = plain_layout(1);
  gaps.extent = 2;
  copy_until_launches_are_saved([&](int i) {
    const size_t more = i % 2 ? 10 : 100000;
    std::memset(from_, i, kBytes / 2);
    std::memset(to_, i + 1, kBytes / 2);
    const proto::PackItem item = pack_item(gaps, nullptr, nullptr, from_, to_ + 100, kTaken, false);
    (void)*queue_->add({&item, 1}, false);
    wait(*add(100000, more));
    EXPECT_EQ(to_[99], static_cast<uint8_t>(i + 1));
    EXPECT_EQ(to_[100 + kTaken], static_cast<uint8_t>(i + 1));
    ASSERT_EQ(std::memcmp(to_ + 100, from_, kTaken), 0);
    ASSERT_EQ(std::memcmp(to_ + 100000, from_ + 100000, more), 0);
  });
}

// A kernel of several blocks takes small copies, too, but not for ever.
TEST_F(CopyQueueTest, GoesBackToOneBlockWhereCopiesAreSmall) {
  for (int i = 0; i < 20; ++i) copy_and_compare(0, 300000, i);
  EXPECT_GT(device_.blocks, 1);
  for (int i = 0; i < 100; ++i) copy_and_compare(0, 8, i);
  EXPECT_EQ(device_.blocks, 1);
}

// And short in this one's, so that kernels leave while copies are posted.
TEST_F(CopyQueueTest, LosesNoCopyWhileItsKernelLeaves) {
  std::minstd_rand random(4711);
  for (int i = 0; i < 1000; ++i) {
    const size_t bytes = 1 + random() % 3000;
    copy_and_compare(random() % 5000, bytes, i);
    if (random() % 4 == 0) copy_and_compare(random() % 5000, 40000 + random() % 100000, i + 1);
    if (random() % 8 == 0) {  // several under way at once
      const uint64_t first = *add(10000, 8), second = *add(20000, 100000);
      queue_->launch();
      wait(*add(30000, 16));
      wait(second);
      wait(first);
    }
    for (volatile uint32_t pause = random() % 20000; pause > 0;) pause = pause - 1;  // keeps its processor
  }
}

TEST_F(CopyQueueTest, NeverStaysWhereItMayNot) {
  queue_->never_stay();
  for (int i = 0; i < 20; ++i) copy_and_compare(0, 8, i);
  EXPECT_EQ(device_.launches, 20);
}

TEST_F(CopyQueueTest, FailsForGoodWhereALaunchFails) {
  device_.fails = true;
  const uint64_t number = *add(0, 8);
  queue_->launch();
  EXPECT_FALSE(queue_->ended(number));
  device_.fails = false;
  EXPECT_FALSE(add(0, 8));
}

}  // namespace
}  // namespace gpucoll::coll
