// For tests of the planner: checks one plan against the rules of proto/format/plan.h and lists what each channel runs.
#pragma once
#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "core/plan/planner.h"

namespace gpucoll::core {

// One batch as its channel runs it.
struct WalkedBatch {
  proto::Batch batch;
  std::vector<const proto::WorkItem*> items;
  bool pairs() const { return batch.function == Function::send_recv; }
};
using Walk = std::map<int, std::vector<WalkedBatch>>;  // by channel

inline const proto::WorkItem* items_of(const PlannedLaunch& launch) {
  return launch.overflow.empty() ? launch.plan.own_items() : launch.overflow.data();
}

inline void check_batch(const WalkedBatch& walked, const PlannedLaunch& launch, int warp) {
  if (!walked.pairs()) return;
  EXPECT_LE(walked.items.size(), size_t{proto::kPairsPerBatch});
  EXPECT_GE(launch.threads, 2 * static_cast<int>(walked.items.size()) * warp);
  std::map<int, int> to, from;
  for (const proto::WorkItem* item : walked.items) {
    if (item->pair.send_peer >= 0) {
      EXPECT_EQ(++to[item->pair.send_peer], 1);
    }
    if (item->pair.recv_peer >= 0) {
      EXPECT_EQ(++from[item->pair.recv_peer], 1);
    }
  }
}

inline std::vector<WalkedBatch> walk_channel(const PlannedLaunch& launch, uint32_t first, int warp,
                                             std::vector<int>& visits) {
  std::vector<WalkedBatch> chain;
  for (uint32_t b = first;;) {
    if (b >= launch.plan.n_batches) {
      ADD_FAILURE() << "batch " << b << " of " << launch.plan.n_batches;
      break;
    }
    ++visits[b];
    WalkedBatch walked{launch.plan.batch(b), {}};
    for (uint32_t i = 0; i < proto::kItemsPerBatch; ++i) {
      if (!(walked.batch.items >> i & 1)) continue;
      EXPECT_LT(walked.batch.base + i, launch.plan.n_items);
      walked.items.push_back(items_of(launch) + walked.batch.base + i);
    }
    EXPECT_FALSE(walked.items.empty());
    check_batch(walked, launch, warp);
    chain.push_back(walked);
    b = walked.batch.next;
    if (b == 0) break;
    if (chain.size() > launch.plan.n_batches) {
      ADD_FAILURE() << "the chain of batches has no end";
      break;
    }
  }
  return chain;
}

// Not for one-shot plans: there all blocks run batch 0.
inline Walk walk(const PlannedLaunch& launch, const PlanBudget& budget, int warp) {
  const proto::Plan& plan = launch.plan;
  EXPECT_LE(plan.n_batches * sizeof(proto::Batch), proto::kPlanWorkBytes);
  if (launch.overflow.empty()) {
    EXPECT_TRUE(proto::fits_plan(plan.n_batches, plan.n_items));
  } else {
    EXPECT_FALSE(proto::fits_plan(plan.n_batches, plan.n_items));
    EXPECT_EQ(launch.overflow.size(), plan.n_items);
    EXPECT_LE(launch.overflow.size(), budget.fifo_items);
  }
  EXPECT_EQ(launch.threads % warp, 0);
  std::vector<int> visits(plan.n_batches, 0);
  Walk channels;
  uint32_t first = 0;
  for (int c = 0; c < 64; ++c)
    if (plan.channel_mask >> c & 1) channels[c] = walk_channel(launch, first++, warp, visits);
  EXPECT_EQ(visits, std::vector<int>(plan.n_batches, 1));
  return channels;
}

}  // namespace gpucoll::core
