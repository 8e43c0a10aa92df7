#include "core/plan/planner.h"

#include <algorithm>
#include <array>
#include <span>

#include "base/mutant.h"
#include "core/plan/algorithm_choice.h"
#include "core/plan/channel_loads.h"
#include "core/plan/copy_engine_reduction.h"
#include "core/plan/plan_builder.h"
#include "core/plan/send_recv_rounds.h"
#include "proto/pairs.h"

namespace gpucoll::core {
namespace {

using proto::Batch;
using proto::CollectiveItem;
using proto::SendRecvItem;
using proto::WorkItem;

// Calls f for what runs on this kernel, in order, and marks it as planned.
template <class F>
void for_each_of(std::vector<ChosenCollective>& all, const gpu::Kernel* kernel, F&& f) {
  for (ChosenCollective& chosen : all) {
    if (chosen.planned || chosen.kernel != kernel) continue;
    f(chosen);
    chosen.planned = true;
  }
}

bool is_in_packs(const void* buffer) { return reinterpret_cast<uintptr_t>(buffer) % sizeof(proto::Pack) == 0; }

uint64_t channel_bits(int first, int n) { return ((uint64_t{1} << n) - 1) << first; }

// Most sends and receives that a block runs side by side: each takes two groups of at least a warp. The emulated device
// starts as many threads as it takes.
int pairs_per_batch(const CommProperties& shape) {
  if (shape.emulated) return proto::kPairsPerBatch;
  return std::clamp(shape.threads / (2 * shape.warp), 1, proto::kPairsPerBatch);
}

class Planner {
 public:
  Planner(const CommProperties& shape, int rank, const PlanBudget& budget, const gpu::Kernel* move,
          UserBufferMarker* direct)
      : shape_(shape),
        rank_(rank),
        move_(move),
        user_buffers_(direct),
        builder_(budget, pairs_per_batch(shape)),
        loads_(shape.n_channels) {}

  void plan_collectives(const TaskQueue& queue);
  void plan_pairs(const TaskQueue& queue);
  void plan_packing(const std::vector<proto::PackItem>& items, const gpu::Kernel* packing, Stage stage);
  void plan_reductions(const std::vector<LocalTask>& tasks, Stage stage);
  // Returns what has been planned.
  std::vector<PlannedLaunch> finish() {
    close();
    return std::move(launches_);
  }

 private:
  void add_collective(const ChosenCollective& chosen);
  std::span<const WorkItem> open_buffers(const ChosenCollective& chosen, CollectiveItem& item);
  void add_one_shot(const ChosenCollective& chosen);
  void add_pair(const Direction* send, const Direction* recv);
  void put_pair(const WorkItem& item, int threads);
  void open(const gpu::Kernel* kernel);
  void close();

  const CommProperties& shape_;
  int rank_;
  const gpu::Kernel* move_;
  UserBufferMarker* user_buffers_;
  std::vector<PlannedLaunch> launches_;
  // The plan that is being made.
  PlanBuilder builder_;
  Loads loads_;
  std::array<WorkItem, proto::kItemsOfAddresses> addresses_ = {};  // of the collective that is being added
  const gpu::Kernel* kernel_ = nullptr;
  int threads_ = 1;
  bool varies_ = false;
};

void Planner::open(const gpu::Kernel* kernel) {
  close();
  kernel_ = kernel;
}

void Planner::close() {
  if (builder_.empty()) return;
  // Whole warps, two groups of at least one of them for each of the sends and receives that run side by side.
  const int threads = std::max(threads_, 2 * builder_.most_pairs() * shape_.warp);
  PlannedLaunch& launch = launches_.emplace_back();
  launch.kernel = kernel_;
  launch.threads = (threads + shape_.warp - 1) / shape_.warp * shape_.warp;
  launch.varies = varies_;
  builder_.take(launch);
  threads_ = 1;
  varies_ = false;
  loads_.clear();
}

void Planner::add_collective(const ChosenCollective& chosen) {
  threads_ = std::max(threads_, chosen.choice.threads);
  WorkItem item = {.collective = item_of(chosen)};
  bool varies = user_buffers_ && may_be_direct(chosen) &&
                user_buffers_->mark(item.collective, output_bytes(*chosen.task, shape_), shape_.capturing);
  const std::span<const WorkItem> addresses = open_buffers(chosen, item.collective);
  varies |= !addresses.empty();
  auto add = [&] {
    const int first = loads_.place(chosen.choice.channels, work_of(*chosen.task, shape_));
    item.collective.first_channel = static_cast<uint16_t>(first);
    return builder_.add(item, kind_of(chosen), channel_bits(first, chosen.choice.channels), addresses);
  };
  if (!add()) {
    close();
    threads_ = chosen.choice.threads;
    add();
  }
  varies_ |= varies;
}

// Returns what lies behind a zero-copy operation's item: as much on every rank, since all cut their plans alike.
std::span<const WorkItem> Planner::open_buffers(const ChosenCollective& chosen, CollectiveItem& item) {
  if (!chosen.choice.zero_copy) return {};
  const CollectiveTask& task = *chosen.task;
  const bool is_written = task.function == Function::all_reduce ||
                          (task.function == Function::reduce && static_cast<uint32_t>(rank_) == task.root);
  const auto open = [&](const void* buffer, WorkItem& to) {
    to.addresses = {};
    return is_in_packs(buffer) && user_buffers_->open(buffer, shape_.capturing, to.addresses);
  };
  const bool reached = user_buffers_ && is_in_packs(task.recv) && open(task.send, addresses_[0]);
  item.open = reached && (!is_written || open(task.recv, addresses_[1]));
  return addresses_;
}

// A plan of one-shot operations has them all in the one batch that every block runs.
void Planner::add_one_shot(const ChosenCollective& chosen) {
  constexpr uint32_t kMostItems = (proto::kPlanWorkBytes - sizeof(Batch)) / sizeof(WorkItem);
  if (launches_.empty() || launches_.back().kernel != chosen.kernel || launches_.back().plan.n_items == kMostItems) {
    launches_.emplace_back().kernel = chosen.kernel;
    launches_.back().plan.n_batches = 1;
    launches_.back().plan.batch(0) = kind_of(chosen);
  }
  PlannedLaunch& launch = launches_.back();
  launch.threads = std::max(launch.threads, chosen.choice.threads);
  proto::Plan& plan = launch.plan;
  plan.channel_mask |= channel_bits(0, chosen.choice.channels);
  plan.batch(0).items |= uint64_t{1} << plan.n_items;
  CollectiveItem& item = plan.own_items()[plan.n_items++].collective;
  item = item_of(chosen);
  item.function = chosen.task->function;
  item.next_rank = static_cast<uint8_t>((rank_ + 1) % shape_.n_ranks);
}

// One kernel after another, in order of appearance; those by connections last, since sends and receives join the last
// plan.
void Planner::plan_collectives(const TaskQueue& queue) {
  std::vector<ChosenCollective> all = choose_all(queue, shape_, move_);
  for (ChosenCollective& chosen : all) {
    if (!is_one_shot(chosen) || chosen.planned) continue;
    for_each_of(all, chosen.kernel, [&](const ChosenCollective& same) { add_one_shot(same); });
  }
  const auto plan_those = [&](bool by_links) {
    for (ChosenCollective& chosen : all) {
      if (chosen.planned || is_by_links(chosen) != by_links) continue;
      open(chosen.kernel);
      for_each_of(all, chosen.kernel, [&](const ChosenCollective& same) { add_collective(same); });
    }
  };
  plan_those(false);
  open(nullptr);
  plan_those(true);
}

void Planner::add_pair(const Direction* send, const Direction* recv) {
  WorkItem item = {.pair = {}};
  SendRecvItem& pair = item.pair;
  pair.send_peer = pair.recv_peer = -1;
  int threads = 1;
  if (send) {
    const PairChoice choice = choose_pair(send->task->bytes, shape_);
    pair.send = send->task->buffer;
    pair.send_bytes = send->task->bytes;
    pair.send_peer = send->task->peer;
    pair.send_parts = static_cast<uint8_t>(choice.parts);
    pair.send_protocol = choice.protocol;
    threads = choice.threads;
  }
  if (recv) {
    const PairChoice choice = choose_pair(recv->task->bytes, shape_);
    pair.recv = recv->task->buffer;
    pair.recv_bytes = recv->task->bytes;
    pair.recv_peer = recv->task->peer;
    pair.recv_parts = static_cast<uint8_t>(choice.parts);
    pair.recv_protocol = choice.protocol;
    threads = std::max(threads, choice.threads);
  }
  pair.distance = send ? send->distance : recv->distance;
  const bool varies = user_buffers_ && user_buffers_->mark(pair, shape_.capturing);
  put_pair(item, threads);
  varies_ |= varies;
}

void Planner::put_pair(const WorkItem& item, int threads) {
  const SendRecvItem& pair = item.pair;
  const auto n_channels = static_cast<uint32_t>(shape_.n_pair_channels);
  uint64_t channels = 0;
  for (uint32_t part = 0; part < std::max(pair.send_parts, pair.recv_parts); ++part)
    channels |= uint64_t{1} << proto::pair_channel(pair.distance, part, n_channels);
  const Batch kind = {0, Function::send_recv, Algorithm::pairwise, Protocol::simple, 0, 0, 0};
  if (!kernel_) kernel_ = move_;
  if (!builder_.add(item, kind, channels)) {
    open(move_);
    builder_.add(item, kind, channels);
  }
  threads_ = std::max(threads_, threads);
}

void Planner::plan_pairs(const TaskQueue& queue) {
  const auto n = shape_.n_ranks;
  const auto sends = order_rounds(queue.sends, [&](int peer) { return static_cast<uint32_t>((peer - rank_ + n) % n); });
  const auto recvs = order_rounds(queue.recvs, [&](int peer) { return static_cast<uint32_t>((rank_ - peer + n) % n); });
  auto send = sends.begin();
  auto recv = recvs.begin();
  while (send != sends.end() || recv != recvs.end()) {
    const bool sends_now = send != sends.end() && (recv == recvs.end() || !(*recv < *send));
    const bool receives_now = recv != recvs.end() && (send == sends.end() || !(*send < *recv));
    add_pair(sends_now ? &*send : nullptr, receives_now ? &*recv : nullptr);
    if (sends_now) ++send;
    if (receives_now) ++recv;
  }
}

void Planner::plan_packing(const std::vector<proto::PackItem>& items, const gpu::Kernel* packing, Stage stage) {
  close();
  const std::span all(items);
  for (size_t first = 0; first < items.size(); first += proto::kPackItems) {
    const size_t n = std::min<size_t>(items.size() - first, proto::kPackItems);
    PlannedLaunch& launch = launches_.emplace_back();
    launch.kernel = packing;
    launch.stage = stage;
    launch.threads = shape_.threads;
    launch.plain_blocks = put_pack_items(launch.plan, all.subspan(first, n), shape_.threads);
    if (launch.plain_blocks <= shape_.max_blocks || gc_mutant(343)) continue;
    launch.plain_blocks = shape_.max_blocks;
    put_pack_items(launch.plan, all.subspan(first, n), shape_.threads, shape_.max_blocks);
  }
}

void Planner::plan_reductions(const std::vector<LocalTask>& tasks, Stage stage) {
  close();
  for (const LocalTask& task : tasks) {
    PlannedLaunch& launch = launches_.emplace_back();
    launch.kernel = task.kernel;
    launch.stage = stage;
    launch.threads = shape_.threads;
    launch.plain_blocks = local_blocks(task.reduction.count * task.element_bytes, most_local_blocks(shape_));
    launch.plan.n_items = proto::kItemsOfLocalReduction;
    proto::local_reduction(launch.plan) = task.reduction;
  }
}

// Every multiprocessor of a large GPU gets some, where each thread has a few packs to move; small items one each, as
// each takes a round trip to memory. The emulated device's blocks have one thread each: then no more than there are
// cores, as a rule.
int packing_blocks(size_t items, uint64_t bytes, int threads) noexcept {
  constexpr uint64_t kMost = 264, kMostSingle = 2, kBytesOfThread = 64;
  const uint64_t blocks = std::max<uint64_t>(items, bytes / (kBytesOfThread * static_cast<uint64_t>(threads)));
  return static_cast<int>(std::clamp<uint64_t>(blocks, 1, threads == 1 ? kMostSingle : kMost));
}

}  // namespace

std::vector<PlannedLaunch> make_plans(const TaskQueue& queue, int rank, const CommProperties& shape,
                                      const PlanBudget& budget, const gpu::Kernel* move, UserBufferMarker* direct) {
  Planner planner(shape, rank, budget, move, direct);
  if (!queue.before.empty()) planner.plan_packing(queue.before, queue.packing, Stage::pack);
  planner.plan_reductions(queue.reductions, Stage::pack);
  if (!queue.collectives.empty()) planner.plan_collectives(queue);
  if (!queue.sends.empty() || !queue.recvs.empty()) planner.plan_pairs(queue);
  planner.plan_reductions(queue.late_reductions, Stage::unpack);
  if (!queue.spread.empty()) planner.plan_packing(queue.spread, queue.packing, Stage::unpack);
  if (!queue.after.empty()) planner.plan_packing(queue.after, queue.packing, Stage::unpack);
  std::vector<PlannedLaunch> launches = planner.finish();
  for (PlannedLaunch& launch : launches) launch.plan.results_on_host = queue.results_on_host;
  return launches;
}

void put_pack_items(proto::PackItem* where, std::span<const proto::PackItem> items, int threads, int blocks) noexcept {
  uint64_t tiles = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    proto::PackItem& item = where[i] = items[i];
    item.first_block = static_cast<uint16_t>(tiles % static_cast<uint64_t>(blocks));
    const uint64_t tile = proto::pack_tile_bytes(item, static_cast<uint64_t>(threads));
    if (item.unpacks != proto::kFrom) tiles += (item.bytes + tile - 1) / tile;
  }
}

void put_pack_items(proto::Plan& plan, std::span<const proto::PackItem> items, int threads, int blocks) noexcept {
  plan.n_items = static_cast<uint32_t>(items.size()) * proto::kItemsOfPacking;
  put_pack_items(proto::pack_items(plan), items, threads, blocks);
}

int put_pack_items(proto::Plan& plan, std::span<const proto::PackItem> items, int threads) noexcept {
  uint64_t bytes = 0;
  for (const proto::PackItem& item : items)
    if (item.unpacks != proto::kFrom) bytes += item.bytes;
  const int blocks = packing_blocks(items.size(), bytes, threads);
  put_pack_items(plan, items, threads, blocks);
  return blocks;
}

}  // namespace gpucoll::core
