#include "core/planner.h"

#include <algorithm>
#include <array>

#include "core/channel_loads.h"
#include "core/copy_reductions.h"
#include "core/pair_rounds.h"
#include "core/plan_builder.h"
#include "proto/pairs.h"

namespace gpucoll::core {
namespace {

using proto::Batch;
using proto::CollectiveItem;
using proto::PairItem;
using proto::WorkItem;

// A collective and how it will run.
struct Chosen {
  const CollectiveTask* task;
  const gpu::Kernel* kernel;
  Choice choice;
  bool planned;
};

// choose() again and again for the same few operations: the last answers, by a hash of what was asked.
struct Answer {
  uint64_t bytes;
  Function function;
  bool has_one_shot, valid;
  CommShape shape;
  Choice choice;
};

Choice choose_for(const CollectiveTask& task, const CommShape& shape) {
  constexpr size_t kAnswers = 16;
  thread_local std::array<Answer, kAnswers> answers;
  const uint64_t bytes = task.count * task.element_bytes;
  const bool has_one_shot = task.one_shot != nullptr;
  Answer& answer = answers[(bytes * 0x9e3779b97f4a7c15 >> 60 ^ static_cast<uint64_t>(task.function)) % kAnswers];
  if (!answer.valid || answer.bytes != bytes || answer.function != task.function ||
      answer.has_one_shot != has_one_shot || answer.shape != shape)
    answer = {bytes, task.function, has_one_shot, true, shape, choose(task.function, bytes, shape, has_one_shot)};
  return answer.choice;
}

bool is_one_shot(const Chosen& chosen) { return chosen.choice.algorithm == Algorithm::one_shot; }

// Tasks that only move data go with the reductions where there are any: one launch less.
std::vector<Chosen> choose_all(const TaskQueue& queue, const CommShape& shape, const gpu::Kernel* move) {
  std::vector<Chosen> all;
  all.reserve(queue.collectives.size());
  const gpu::Kernel* mover = nullptr;
  for (const CollectiveTask& task : queue.collectives) {
    if (task.count == 0 || reduces_by_copies(task, shape)) continue;
    Chosen& chosen = all.emplace_back(Chosen{&task, task.kernel, choose_for(task, shape), false});
    if (is_one_shot(chosen)) chosen.kernel = task.one_shot;
    if (!mover && !is_one_shot(chosen)) mover = task.kernel;
  }
  for (Chosen& chosen : all)
    if (!chosen.kernel) chosen.kernel = mover ? mover : move;
  return all;
}

bool moves_only(const CollectiveTask& task) { return task.kernel == nullptr; }

CollectiveItem item_of(const Chosen& chosen) {
  const CollectiveTask& task = *chosen.task;
  CollectiveItem item = {};
  item.send = task.send;
  item.recv = task.recv;
  // Where nothing is reduced the kernel knows no types: bytes.
  item.count = moves_only(task) ? task.count * task.element_bytes : task.count;
  item.argument = task.argument;
  item.argument_high = task.argument_high;
  item.scalar_in_memory = task.scalar_in_memory;
  item.root = task.root;
  item.chunk_bytes = chosen.choice.chunk_bytes;
  item.n_channels = static_cast<uint16_t>(chosen.choice.channels);
  return item;
}

Batch kind_of(const Chosen& chosen) {
  const CollectiveTask& task = *chosen.task;
  const uint8_t op = moves_only(task) ? 0 : task.op;
  return {0, task.function, chosen.choice.algorithm, chosen.choice.protocol, op, 0, 0};
}

// Calls f for what runs on this kernel, in order, and marks it as planned.
template <class F>
void for_each_of(std::vector<Chosen>& all, const gpu::Kernel* kernel, F&& f) {
  for (Chosen& chosen : all) {
    if (chosen.planned || chosen.kernel != kernel) continue;
    f(chosen);
    chosen.planned = true;
  }
}

uint64_t channel_bits(int first, int n) { return ((uint64_t{1} << n) - 1) << first; }

// About the bytes that pass through a rank.
uint64_t work_of(const CollectiveTask& task, const CommShape& shape) {
  const uint64_t bytes = task.count * task.element_bytes;
  switch (task.function) {
    case Function::all_reduce: return 2 * bytes;
    case Function::all_gather:
    case Function::reduce_scatter: return static_cast<uint64_t>(shape.n_ranks) * bytes;
    default: return bytes;
  }
}

// A scalar of 16 bytes lies where a grant would.
bool may_be_direct(const Chosen& chosen) {
  const CollectiveTask& task = *chosen.task;
  if (chosen.choice.algorithm != Algorithm::ring || chosen.choice.protocol != Protocol::simple) return false;
  return task.function == Function::broadcast || task.function == Function::all_gather ||
         (task.function == Function::all_reduce && task.element_bytes < 16);
}

uint64_t output_bytes(const CollectiveTask& task, const CommShape& shape) {
  const uint64_t bytes = task.count * task.element_bytes;
  return task.function == Function::all_gather ? bytes * static_cast<uint64_t>(shape.n_ranks) : bytes;
}

// Most sends and receives that a block runs side by side: each takes two groups of at least a warp. The emulated device
// starts as many threads as it takes.
int pairs_per_batch(const CommShape& shape) {
  if (shape.emulated) return proto::kPairsPerBatch;
  return std::clamp(shape.threads / (2 * shape.warp), 1, proto::kPairsPerBatch);
}

class Planner {
 public:
  Planner(const CommShape& shape, int rank, const PlanBudget& budget, const gpu::Kernel* move, DirectMarker* direct)
      : shape_(shape),
        rank_(rank),
        move_(move),
        direct_(direct),
        builder_(budget, pairs_per_batch(shape)),
        loads_(shape.n_channels) {}

  void plan_collectives(const TaskQueue& queue);
  void plan_pairs(const TaskQueue& queue);
  void plan_packing(const std::vector<proto::PackItem>& items, const gpu::Kernel* packing, Stage stage);
  // What has been planned.
  std::vector<PlannedLaunch> finish() {
    close();
    return std::move(launches_);
  }

 private:
  void add_collective(const Chosen& chosen);
  void add_one_shot(const Chosen& chosen);
  void add_pair(const Half* send, const Half* recv);
  void put_pair(const WorkItem& item, int threads);
  void open(const gpu::Kernel* kernel);
  void close();

  const CommShape& shape_;
  int rank_;
  const gpu::Kernel* move_;
  DirectMarker* direct_;
  std::vector<PlannedLaunch> launches_;
  // The plan that is being made.
  PlanBuilder builder_;
  Loads loads_;
  const gpu::Kernel* kernel_ = nullptr;
  int threads_ = 1;
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
  builder_.take(launch);
  threads_ = 1;
  loads_.clear();
}

void Planner::add_collective(const Chosen& chosen) {
  threads_ = std::max(threads_, chosen.choice.threads);
  WorkItem item = {.collective = item_of(chosen)};
  if (direct_ && may_be_direct(chosen)) {
    direct_->mark(item.collective, output_bytes(*chosen.task, shape_), shape_.capturing);
  }
  auto add = [&] {
    const int first = loads_.place(chosen.choice.channels, work_of(*chosen.task, shape_));
    item.collective.first_channel = static_cast<uint16_t>(first);
    return builder_.add(item, kind_of(chosen), channel_bits(first, chosen.choice.channels));
  };
  if (add()) return;
  close();
  threads_ = chosen.choice.threads;
  add();
}

// A plan of one-shot operations has them all in the one batch that every block runs.
void Planner::add_one_shot(const Chosen& chosen) {
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

// One kernel after another, in order of appearance; one-shots first, since sends and receives join the last plan.
void Planner::plan_collectives(const TaskQueue& queue) {
  std::vector<Chosen> all = choose_all(queue, shape_, move_);
  for (Chosen& chosen : all) {
    if (!is_one_shot(chosen) || chosen.planned) continue;
    for_each_of(all, chosen.kernel, [&](const Chosen& same) { add_one_shot(same); });
  }
  for (Chosen& chosen : all) {
    if (chosen.planned) continue;
    open(chosen.kernel);
    for_each_of(all, chosen.kernel, [&](const Chosen& same) { add_collective(same); });
  }
}

void Planner::add_pair(const Half* send, const Half* recv) {
  WorkItem item = {.pair = {}};
  PairItem& pair = item.pair;
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
  if (direct_) direct_->mark(pair, shape_.capturing);
  put_pair(item, threads);
}

void Planner::put_pair(const WorkItem& item, int threads) {
  const PairItem& pair = item.pair;
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
  const auto sends = in_rounds(queue.sends, [&](int peer) { return static_cast<uint32_t>((peer - rank_ + n) % n); });
  const auto recvs = in_rounds(queue.recvs, [&](int peer) { return static_cast<uint32_t>((rank_ - peer + n) % n); });
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
  for (size_t first = 0; first < items.size(); first += proto::kPackItems) {
    const size_t n = std::min<size_t>(items.size() - first, proto::kPackItems);
    PlannedLaunch& launch = launches_.emplace_back();
    launch.kernel = packing;
    launch.stage = stage;
    launch.threads = shape_.threads;
    uint64_t bytes = 0;
    for (size_t i = first; i < first + n; ++i) bytes += items[i].bytes;
    launch.plain_blocks = packing_blocks(bytes, shape_.threads);
    launch.plan.n_items = static_cast<uint32_t>(n) * proto::kItemsOfPacking;
    std::copy_n(&items[first], n, proto::pack_items(launch.plan));
  }
}

void sort_out(std::vector<int>& peers) {
  std::sort(peers.begin(), peers.end());
  peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
}

}  // namespace

std::vector<PlannedLaunch> make_plans(const TaskQueue& queue, int rank, const CommShape& shape,
                                      const PlanBudget& budget, const gpu::Kernel* move, DirectMarker* direct) {
  Planner planner(shape, rank, budget, move, direct);
  if (!queue.before.empty()) planner.plan_packing(queue.before, queue.packing, Stage::pack);
  if (!queue.collectives.empty()) planner.plan_collectives(queue);
  if (!queue.sends.empty() || !queue.recvs.empty()) planner.plan_pairs(queue);
  if (!queue.after.empty()) planner.plan_packing(queue.after, queue.packing, Stage::unpack);
  std::vector<PlannedLaunch> launches = planner.finish();
  for (PlannedLaunch& launch : launches) launch.plan.results_on_host = queue.results_on_host;
  return launches;
}

// Every multiprocessor of a large GPU gets some, where each thread has a few packs to move. The emulated device's
// blocks have one thread each: then no more than there are cores, as a rule.
int packing_blocks(uint64_t bytes, int threads) noexcept {
  constexpr uint64_t kMost = 264, kMostSingle = 2, kBytesOfThread = 64;
  const uint64_t blocks = bytes / (kBytesOfThread * static_cast<uint64_t>(threads));
  return static_cast<int>(std::clamp<uint64_t>(blocks, 1, threads == 1 ? kMostSingle : kMost));
}

Needs needs_of(const TaskQueue& queue, int rank, const CommShape& shape) {
  Needs needs;
  if (shape.n_ranks == 1) return needs;
  for (const CollectiveTask& task : queue.collectives) {
    if (task.count == 0) continue;
    needs.copy_reductions |= reduces_by_copies(task, shape);
    if (reduces_by_copies(task, shape)) continue;
    const Choice choice = choose_for(task, shape);
    needs.ring |= choice.algorithm == Algorithm::ring;
    needs.tree |= choice.algorithm == Algorithm::tree;
    needs.mesh |= choice.algorithm == Algorithm::one_shot;
    // Loads puts an operation above others only where these leave no room below.
    if (choice.algorithm != Algorithm::one_shot)
      needs.channels = std::min(needs.channels + choice.channels, shape.n_channels);
  }
  for (const TaskQueue::Pair& task : queue.sends)
    if (task.peer != rank) needs.send_to.push_back(task.peer);
  for (const TaskQueue::Pair& task : queue.recvs)
    if (task.peer != rank) needs.receive_from.push_back(task.peer);
  for (int peer = 0; needs.copy_reductions && peer < shape.n_ranks; ++peer) {
    if (peer == rank) continue;
    needs.send_to.push_back(peer);
    needs.receive_from.push_back(peer);
  }
  sort_out(needs.send_to);
  sort_out(needs.receive_from);
  return needs;
}

}  // namespace gpucoll::core
