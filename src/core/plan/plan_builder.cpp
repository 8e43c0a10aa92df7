#include "core/plan/plan_builder.h"

#include <algorithm>
#include <cstring>

namespace gpucoll::core {
namespace {

using proto::Batch;
using proto::Function;
using proto::SendRecvItem;
using proto::WorkItem;

// Calls f(channel) for each set bit.
template <class F>
void for_each_bit(uint64_t bits, F&& f) {
  for (; bits; bits &= bits - 1) f(__builtin_ctzll(bits));
}

bool same_kind(const Batch& a, const Batch& b) {
  return a.function == b.function && a.algorithm == b.algorithm && a.protocol == b.protocol && a.op == b.op;
}

bool same_peer(int a, int b) { return a >= 0 && a == b; }

}  // namespace

PlanBuilder::PlanBuilder(const PlanBudget& budget, int pairs_per_batch)
    : fifo_items_(std::min<size_t>(budget.fifo_items, UINT16_MAX)), pairs_per_batch_(pairs_per_batch) {}

bool PlanBuilder::fits(size_t n_batches, size_t n_items) const {
  return proto::fits_plan(n_batches, n_items) || (n_batches <= kMostBatches && n_items <= fifo_items_);
}

// Two messages of one peer use the same connection: they follow each other, in batches of their own.
bool PlanBuilder::joins_pairs(const Batch& batch, const SendRecvItem& pair) const {
  if (__builtin_popcountll(batch.items) >= pairs_per_batch_) return false;
  bool free = true;
  for_each_bit(batch.items, [&](int i) {
    const SendRecvItem& other = items_[size_t{batch.base} + static_cast<size_t>(i)].pair;
    free = free && !same_peer(pair.send_peer, other.send_peer) && !same_peer(pair.recv_peer, other.recv_peer);
  });
  return free;
}

bool PlanBuilder::joins(int channel, const WorkItem& item, const Batch& kind) const {
  if (!(channels_ >> channel & 1)) return false;
  const Batch& last = batches_[last_[static_cast<size_t>(channel)]];
  if (!same_kind(last, kind) || items_.size() - last.base >= proto::kItemsPerBatch) return false;
  return kind.function != Function::send_recv || joins_pairs(last, item.pair);
}

// REQUIRES: the item that the batch is opened for is the last one.
void PlanBuilder::open(int channel, const Batch& kind) {
  const auto c = static_cast<size_t>(channel);
  const auto index = static_cast<uint16_t>(n_batches_++);
  batches_[index] = kind;
  batches_[index].next = 0;
  batches_[index].base = static_cast<uint16_t>(items_.size() - 1);
  batches_[index].items = 0;
  if (channels_ >> c & 1) {
    batches_[last_[c]].next = index;
  } else {
    first_[c] = index;
    channels_ |= uint64_t{1} << c;
  }
  last_[c] = index;
}

bool PlanBuilder::add(const WorkItem& item, const Batch& kind, uint64_t channels, std::span<const WorkItem> behind) {
  uint64_t fresh = 0;  // channels whose last batch it cannot join
  for_each_bit(channels, [&](int c) {
    if (!joins(c, item, kind)) fresh |= uint64_t{1} << c;
  });
  const size_t n_items = items_.size() + 1 + behind.size();
  if (!fits(n_batches_ + static_cast<size_t>(__builtin_popcountll(fresh)), n_items)) return false;
  items_.push_back(item);
  if (!behind.empty()) items_.back().collective.addresses = static_cast<uint16_t>(items_.size());
  for_each_bit(fresh, [&](int c) { open(c, kind); });
  for_each_bit(channels, [&](int c) {
    Batch& batch = batches_[last_[static_cast<size_t>(c)]];
    batch.items |= uint64_t{1} << (items_.size() - 1 - batch.base);
    if (kind.function == Function::send_recv) most_pairs_ = std::max(most_pairs_, __builtin_popcountll(batch.items));
  });
  items_.insert(items_.end(), behind.begin(), behind.end());
  return true;
}

// First the channels' first batches, in the order of channels, where blocks look for them; then the others.
void PlanBuilder::lay_out_batches(proto::Plan& plan) const {
  constexpr uint16_t kNowhere = UINT16_MAX;
  std::array<uint16_t, kMostBatches> place;
  std::fill_n(place.begin(), n_batches_, kNowhere);
  uint16_t n = 0;
  for_each_bit(channels_, [&](int c) { place[first_[static_cast<size_t>(c)]] = n++; });
  for (size_t i = 0; i < n_batches_; ++i) {
    if (place[i] == kNowhere) place[i] = n++;
  }
  for (size_t i = 0; i < n_batches_; ++i) {
    Batch& batch = plan.batch(place[i]);
    batch = batches_[i];
    // 0 ends the chain in both orders: it is always some channel's first batch.
    if (batch.next) batch.next = place[batch.next];
  }
}

void PlanBuilder::take(PlannedLaunch& launch) {
  proto::Plan& plan = launch.plan;
  plan.channel_mask = channels_;
  plan.n_batches = static_cast<uint32_t>(n_batches_);
  plan.n_items = static_cast<uint32_t>(items_.size());
  lay_out_batches(plan);
  if (proto::fits_plan(n_batches_, items_.size())) {
    std::memcpy(plan.own_items(), items_.data(), items_.size() * sizeof(WorkItem));
    items_.clear();
  } else {
    launch.overflow = std::exchange(items_, {});
  }
  n_batches_ = 0;
  channels_ = 0;
  most_pairs_ = 0;
}

}  // namespace gpucoll::core
