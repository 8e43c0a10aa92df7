// The limit of blocks that run at once on emulated devices. GPUCOLL_EMU_BLOCKS=4.
#include <gtest/gtest.h>
#include <unistd.h>

#include "emu_kernels.h"

namespace gpucoll::gpu {
namespace {

void count(const EmuBlock&, const proto::Plan& plan) { ++orders_of(plan).entered[plan.channel_mask]; }
const Kernel kCount = kernel("count", count);

TEST(EmuBlocks, LaunchesBeginInTheirOrderAsThereIsRoom) {
  Stream streams[] = {new_stream(), new_stream(), new_stream()};
  Orders orders;
  ASSERT_TRUE(device().prepare(kCount));
  ASSERT_TRUE(device().launch(kWait, plan_for(orders), 3, 1, streams[0]));
  ASSERT_TRUE(device().launch(kCount, plan_for(orders, 1), 2, 1, streams[1]));  // no room
  ASSERT_TRUE(device().launch(kCount, plan_for(orders, 2), 1, 1, streams[2]));  // room, but it is behind
  await_rest();                                                                 // else they would have run by now
  EXPECT_EQ(orders.entered[1].load() + orders.entered[2].load(), 0);
  orders.gate.store(1);
  for (Stream stream : streams) ASSERT_TRUE(device().synchronize(stream));
  EXPECT_EQ(orders.entered[1].load(), 2);
  EXPECT_EQ(orders.entered[2].load(), 1);
  for (Stream stream : streams) ASSERT_TRUE(device().destroy_stream(stream));
}

TEST(EmuBlocks, WhatIsLargerThanTheLimitRunsAlone) {
  Stream stream = new_stream();
  Orders orders;
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(device().launch(kLog, plan_for(orders, i), 6, 2, stream));
  ASSERT_TRUE(device().synchronize(stream));
  EXPECT_EQ(orders.log.size(), 10u);
  ASSERT_TRUE(device().destroy_stream(stream));
}

}  // namespace
}  // namespace gpucoll::gpu
