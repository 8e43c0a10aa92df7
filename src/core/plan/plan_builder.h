// Puts work items into one plan: chains of batches by channel, the items they name, and whether it all still fits.
//
// A value for one thread. Invariants: the batches of a channel run in the order in which items were added; what has
// been added fits into the arguments, or its batches do and its items into the work FIFO.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/plan/planner.h"

namespace gpucoll::core {

class PlanBuilder {
 public:
  // pairs_per_batch: most sends and receives that run side by side, by the threads there are.
  PlanBuilder(const PlanBudget& budget, int pairs_per_batch);

  bool empty() const { return items_.empty(); }
  // Adds an item for these channels; of `kind` only what batches of one kind have in common counts. An item joins the
  // channel's last batch where that is of its kind. False where it does not fit any more: nothing has changed then.
  // behind: addresses that the item is to find, in no batch.
  bool add(const proto::WorkItem& item, const proto::Batch& kind, uint64_t channels,
           std::span<const proto::WorkItem> behind = {});
  // The most sends and receives that one of the batches has.
  int most_pairs() const { return most_pairs_; }
  // Moves everything added into a launch, which is fresh; the builder is empty again.
  void take(PlannedLaunch& launch);

 private:
  static constexpr size_t kMostBatches = proto::kPlanWorkBytes / sizeof(proto::Batch);

  bool fits(size_t n_batches, size_t n_items) const;
  bool joins(int channel, const proto::WorkItem& item, const proto::Batch& kind) const;
  bool joins_pairs(const proto::Batch& batch, const proto::SendRecvItem& pair) const;
  void open(int channel, const proto::Batch& kind);
  void lay_out_batches(proto::Plan& plan) const;

  size_t fifo_items_;
  int pairs_per_batch_, most_pairs_ = 0;
  std::vector<proto::WorkItem> items_;
  // In the order in which they were opened; `next` counts in this order, too, until the plan is laid out.
  std::array<proto::Batch, kMostBatches> batches_;
  size_t n_batches_ = 0;
  uint64_t channels_ = 0;                                   // that have batches
  std::array<uint16_t, proto::kMaxChannels> first_, last_;  // batch of the channel
};

}  // namespace gpucoll::core
