// When a kernel had better stay, and what is posted, with a doorbell at which the test plays the kernel.
#include "core/launch/resident_kernel.h"

#include <gtest/gtest.h>

#include <cstring>

namespace gpucoll::core {
namespace {

using std::chrono::microseconds;

const gpu::Kernel kSum = {"sum", nullptr, nullptr}, kOther = {"other", nullptr, nullptr};

PlannedLaunch one_shot(const gpu::Kernel& kernel = kSum, int blocks = 1, int threads = 32) {
  PlannedLaunch launch;
  launch.kernel = &kernel;
  launch.threads = threads;
  launch.plan.channel_mask = (uint64_t{1} << blocks) - 1;
  launch.plan.n_batches = 1;
  launch.plan.batch(0).algorithm = Algorithm::one_shot;
  launch.plan.batch(0).items = 1;
  launch.plan.n_items = 1;
  return launch;
}

struct ResidentKernelTest : ::testing::Test {
  static constexpr microseconds kBound{10};
  ~ResidentKernelTest() override { leave(UINT64_MAX / 2); }
  // A call of `launch` that begins so long after the last one and takes 1 us.
  void call(const PlannedLaunch& launch, microseconds gap) {
    now += gap;
    resident.call_begins(now);
    ++number;
    posted = resident.takes(launch);
    if (posted) {
      resident.post(launch, number);
    } else {
      resident.dismiss(number);
      stayed = resident.stay_ns() != 0;
      if (stayed) resident.stays(launch, number);
    }
    now += microseconds(1);
    if (!posted || !resident.missed()) resident.call_ends(now);
  }
  void leave(uint64_t last) { doorbell.left = last; }
  bool posted_for(uint64_t asked) const {
    for (uint64_t word : doorbell.word)
      if (!proto::is_posted(word, asked)) return false;
    return true;
  }

  proto::Doorbell doorbell = {};
  ResidentKernel resident{doorbell, kBound};
  ResidentKernel::Clock::time_point now{std::chrono::hours(1)};
  uint64_t number = 0;
  bool posted = false, stayed = false;
};

TEST_F(ResidentKernelTest, StaysOnceCallsFollowEachOtherClosely) {
  for (int i = 0; i < 5; ++i) {
    call(one_shot(), kBound + microseconds(1));
    EXPECT_FALSE(stayed || posted);
  }
  for (int i = 0; i < 3; ++i) call(one_shot(), microseconds(2));
  EXPECT_TRUE(stayed);
  for (int i = 0; i < 5; ++i) {
    call(one_shot(), microseconds(2));
    EXPECT_TRUE(posted && posted_for(number));
  }
  EXPECT_EQ(resident.accepted(), 5u);
}

TEST_F(ResidentKernelTest, PostsOnlyWhatTheKernelCanRun) {
  const PlannedLaunch own = one_shot(kSum, 2, 64);
  for (int i = 0; i < 5; ++i) call(own, microseconds(1));
  ASSERT_TRUE(posted);
  EXPECT_TRUE(resident.takes(one_shot(kSum, 2, 32)));
  EXPECT_FALSE(resident.takes(one_shot(kSum, 2, 96)));
  EXPECT_FALSE(resident.takes(one_shot(kSum, 1, 64)));
  EXPECT_FALSE(resident.takes(one_shot(kOther, 2, 64)));
  call(one_shot(kOther), microseconds(1));
  EXPECT_TRUE(!posted && posted_for(number)) << "the kernel is not told to leave";
  proto::CollectiveItem item;
  uint32_t data[proto::kDoorbellWords];
  for (uint32_t w = 0; w < proto::kDoorbellWords; ++w) data[w] = static_cast<uint32_t>(doorbell.word[w]);
  std::memcpy(&item, data, sizeof item);
  EXPECT_EQ(item.function, proto::kLeave);
}

TEST_F(ResidentKernelTest, SuitsOneShotsAlone) {
  EXPECT_TRUE(ResidentKernel::suits(one_shot()));
  PlannedLaunch ring = one_shot(), two = one_shot(), packing = one_shot(), many = one_shot(), on_host = one_shot();
  ring.plan.batch(0).algorithm = Algorithm::ring;
  two.plan.n_items = 2;
  packing.stage = Stage::pack;
  many.overflow.resize(1);
  on_host.plan.results_on_host = 1;
  for (const PlannedLaunch* launch : {&ring, &two, &packing, &many, &on_host})
    EXPECT_FALSE(ResidentKernel::suits(*launch));
}

// What is rung as the kernel leaves must be launched, once.
TEST_F(ResidentKernelTest, MissesWhatNobodyAccepts) {
  for (int i = 0; i < 4; ++i) call(one_shot(), microseconds(1));
  ASSERT_TRUE(stayed);
  resident.call_begins(now += microseconds(1));
  ASSERT_TRUE(resident.takes(one_shot()));
  resident.post(one_shot(), ++number);
  EXPECT_FALSE(resident.missed());
  leave(number - 1);
  EXPECT_TRUE(resident.missed());
  EXPECT_FALSE(resident.missed());
  EXPECT_FALSE(resident.takes(one_shot()));
}

TEST_F(ResidentKernelTest, HasNotMissedWhatTheKernelRanBeforeItLeft) {
  for (int i = 0; i < 4; ++i) call(one_shot(), microseconds(1));
  resident.call_begins(now += microseconds(1));
  ASSERT_TRUE(resident.takes(one_shot()));
  resident.post(one_shot(), ++number);
  leave(number);
  EXPECT_FALSE(resident.missed());
}

// A program that goes on to something else each time pays for it ever more rarely.
TEST_F(ResidentKernelTest, StaysLessOftenWhereItStaysInVain) {
  int stays = 0;
  for (int round = 0; round < 1000; ++round) {
    for (int i = 0; i < 4; ++i) {
      stayed = false;
      call(one_shot(), microseconds(i == 0 ? 50 : 1));
      stays += stayed;
      if (stayed) leave(number);  // after its time
      if (stayed) now += kBound;
    }
  }
  EXPECT_GE(stays, 5);
  EXPECT_LE(stays, 20);
}

TEST_F(ResidentKernelTest, NeverStaysWithoutABound) {
  proto::Doorbell other = {};
  ResidentKernel never(other, microseconds(0));
  for (int i = 0; i < 10; ++i) {
    never.call_begins(now);
    EXPECT_EQ(never.stay_ns(), 0u);
    never.call_ends(now);
  }
}

}  // namespace
}  // namespace gpucoll::core
