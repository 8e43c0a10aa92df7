// The planner: every task planned once, within all limits, cut alike on all ranks, and nothing waits for ever.
#include "core/plan/planner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <deque>
#include <random>
#include <set>
#include <tuple>

#include "base/params.h"
#include "core/connect/requirements.h"
#include "core/plan/collective_send_recv.h"
#include "core/plan/tuning_file.h"
#include "plan_walk.h"
#include "proto/pairs.h"

namespace gpucoll::core {
namespace {

using proto::CollectiveItem;
using proto::SendRecvItem;
using proto::WorkItem;

const gpu::Kernel kMove = {"move", nullptr, nullptr};
const gpu::Kernel kFloat = {"float", nullptr, nullptr};
const gpu::Kernel kInt = {"int", nullptr, nullptr};
const gpu::Kernel kFloatMesh = {"float in a mesh", nullptr, nullptr};
const gpu::Kernel kMoveMesh = {"move in a mesh", nullptr, nullptr};
const gpu::Kernel kFloatPairs = {"float by all pairs", nullptr, nullptr};
const gpu::Kernel kIntPairs = {"int by all pairs", nullptr, nullptr};
const gpu::Kernel kMovePairs = {"move by all pairs", nullptr, nullptr};
const gpu::Kernel kFloatOpenPairs = {"float on all buffers, or by all pairs", nullptr, nullptr};
const gpu::Kernel kFloatOpenRings = {"float on all buffers, or round the ring", nullptr, nullptr};

using Random = std::mt19937;
uint64_t draw(Random& random, uint64_t least, uint64_t most) {
  return std::uniform_int_distribution<uint64_t>(least, most)(random);
}
// Many small ones, few large ones.
uint64_t draw_bytes(Random& random) { return draw(random, 0, uint64_t{1} << draw(random, 0, 22)); }

CommProperties gpu_shape(int n_ranks) {
  CommProperties shape;
  shape.n_ranks = n_ranks;
  shape.n_channels = 32;
  shape.n_pair_channels = 16;
  shape.threads = 512;
  shape.warp = 32;
  return shape;
}
CommProperties emulated_shape(int n_ranks) {
  CommProperties shape;
  shape.n_ranks = n_ranks;
  shape.n_channels = shape.n_pair_channels = 2;
  shape.emulated = true;
  return shape;
}
CommProperties draw_shape(Random& random, int n_ranks) {
  CommProperties shape = draw(random, 0, 1) ? gpu_shape(n_ranks) : emulated_shape(n_ranks);
  shape.n_channels = static_cast<int>(draw(random, 1, 32));
  shape.n_pair_channels = 1 << draw(random, 0, 5);
  if (!shape.emulated) shape.threads = static_cast<int>(32 * draw(random, 1, 16));
  shape.mesh = draw(random, 0, 1);
  shape.one_shot_bytes = 1 << 18;
  shape.capturing = draw(random, 0, 3) == 0;
  shape.ll128 = draw(random, 0, 1);
  shape.line_mesh = shape.mesh && shape.ll128 && draw(random, 0, 3) != 0;
  shape.all_pairs_bytes = uint64_t{1} << draw(random, 10, 20);
  if (shape.mesh && n_ranks <= proto::kZeroCopyRanks && draw(random, 0, 1))
    shape.zero_copy_bytes = uint64_t{1} << draw(random, 10, 20);
  return shape;
}

// A buffer that names its task.
void* buffer(uint64_t task) { return reinterpret_cast<void*>((task + 1) * 4096); }

CollectiveTask collective(Function function, const gpu::Kernel* kernel, uint64_t count, uint64_t number) {
  CollectiveTask task{};
  task.function = function;
  task.kernels.plan = kernel;
  task.kernels.one_shot = kernel == &kFloat ? &kFloatMesh : kernel == nullptr ? &kMoveMesh : nullptr;
  task.kernels.pairs = kernel == &kFloat ? &kFloatPairs : kernel == nullptr ? &kMovePairs : &kIntPairs;
  if (kernel == &kFloat) {
    task.kernels.open_rings = &kFloatOpenRings;
    task.kernels.open_pairs = &kFloatOpenPairs;
  }
  task.kernels.op = kernel ? 3 : 0;
  task.send = buffer(number);
  task.recv = buffer(number + 1);
  task.count = count;
  task.element_bytes = 4;
  return task;
}

CollectiveTask draw_collective(Random& random, uint64_t number) {
  const auto function = static_cast<Function>(draw(random, 1, 5));
  const bool moves = function == Function::broadcast || function == Function::all_gather;
  CollectiveTask task = collective(function,
                                   moves                ? nullptr
                                   : draw(random, 0, 1) ? &kFloat
                                                        : &kInt,
                                   draw_bytes(random) / 4, number);
  task.root = static_cast<uint32_t>(draw(random, 0, 1));
  return task;
}

struct Sums {
  std::map<const void*, int> collectives, sends, recvs;
};

void count_pairs(const PlannedLaunch& launch, const Walk& channels, const CommProperties& shape, Sums& sums) {
  std::map<const WorkItem*, uint64_t> seen_in;
  for (auto& [c, batches] : channels)
    for (auto& walked : batches)
      if (walked.pairs())
        for (auto* item : walked.items) seen_in[item] |= uint64_t{1} << c;
  for (auto& [item, mask] : seen_in) {
    const SendRecvItem& pair = item->pair;
    uint64_t wanted = 0;
    for (uint32_t p = 0; p < std::max(pair.send_parts, pair.recv_parts); ++p)
      wanted |= uint64_t{1} << proto::pair_channel(pair.distance, p, static_cast<uint32_t>(shape.n_pair_channels));
    EXPECT_EQ(mask, wanted);
    if (pair.send_peer >= 0) {
      ++sums.sends[pair.send];
      EXPECT_EQ(pair.send_parts, choose_pair(pair.send_bytes, shape).parts);
    }
    if (pair.recv_peer >= 0) {
      ++sums.recvs[pair.recv];
      EXPECT_EQ(pair.recv_parts, choose_pair(pair.recv_bytes, shape).parts);
    }
  }
  EXPECT_LE(seen_in.size(), launch.plan.n_items);
  EXPECT_TRUE(seen_in.empty() || launch.kernel == &kFloat || launch.kernel == &kInt || launch.kernel == &kMove)
      << launch.kernel->name;
}

// Each way has a kernel of its own; of those only the one by connections knows sends and receives.
void expect_right_kernel(const gpu::Kernel* kernel, const proto::Batch& batch, const CollectiveItem& item) {
  const bool moves = batch.function == Function::broadcast || batch.function == Function::all_gather;
  if (batch.algorithm == Algorithm::all_pairs && item.addresses != 0) {
    EXPECT_EQ(kernel, &kFloatOpenPairs);
  } else if (batch.algorithm == Algorithm::all_pairs) {
    EXPECT_TRUE(moves ? kernel == &kMovePairs : kernel == &kFloatPairs || kernel == &kIntPairs) << kernel->name;
  } else if (item.addresses != 0) {
    EXPECT_EQ(kernel, &kFloatOpenRings);
  } else {
    EXPECT_TRUE(kernel == &kFloat || kernel == &kInt || (moves && kernel == &kMove)) << kernel->name;
  }
}

void count_collectives(const PlannedLaunch& launch, const Walk& channels, Sums& sums) {
  std::map<const WorkItem*, int> seen;
  for (auto& [c, batches] : channels) {
    const void* last = nullptr;
    bool pairs_began = false;
    for (auto& walked : batches) {
      pairs_began = pairs_began || walked.pairs();
      if (walked.pairs()) continue;
      EXPECT_FALSE(pairs_began) << "a collective behind sends and receives";
      for (auto* item : walked.items) {
        EXPECT_GE(c, item->collective.first_channel);
        EXPECT_LT(c, item->collective.first_channel + item->collective.n_channels);
        EXPECT_LT(last, item->collective.send) << "channel " << c << " changes the order of tasks";
        last = item->collective.send;
        expect_right_kernel(launch.kernel, walked.batch, item->collective);
        ++seen[item];
      }
    }
  }
  for (auto& [item, times] : seen) {
    EXPECT_EQ(times, item->collective.n_channels);
    ++sums.collectives[item->collective.send];
  }
  EXPECT_LE(seen.size(), launch.plan.n_items);
}

void count_one_shots(const PlannedLaunch& launch, Sums& sums) {
  const proto::Plan& plan = launch.plan;
  ASSERT_EQ(plan.n_batches, 1u);
  ASSERT_TRUE(proto::fits_plan(1, plan.n_items));
  EXPECT_EQ(plan.batch(0).items, ~uint64_t{0} >> (64 - plan.n_items));
  EXPECT_EQ(plan.batch(0).next, 0);
  for (uint32_t i = 0; i < plan.n_items; ++i) {
    const CollectiveItem& item = plan.own_items()[i].collective;
    EXPECT_EQ(plan.channel_mask & 1, 1u);
    EXPECT_LE(item.n_channels, launch.blocks());
    EXPECT_EQ(item.first_channel, 0);
    const bool moves = item.function == Function::broadcast || item.function == Function::all_gather;
    EXPECT_EQ(moves, launch.kernel == &kMoveMesh);
    ++sums.collectives[item.send];
  }
}

Sums count_all(const std::vector<PlannedLaunch>& launches, const CommProperties& shape, const PlanBudget& budget) {
  Sums sums;
  for (const PlannedLaunch& launch : launches) {
    if (launch.kernel == &kFloatMesh || launch.kernel == &kMoveMesh) {
      count_one_shots(launch, sums);
      continue;
    }
    const Walk channels = walk(launch, budget, shape.warp);
    count_collectives(launch, channels, sums);
    count_pairs(launch, channels, shape, sums);
  }
  return sums;
}

TEST(Planner, PlansEveryTaskOnceWithinAllLimits) {
  Random random(1);
  for (int round = 0; round < 60; ++round) {
    const int n_ranks = static_cast<int>(draw(random, 2, 70)), rank = n_ranks / 3;
    const CommProperties shape = draw_shape(random, n_ranks);
    const PlanBudget budget{draw(random, 0, 1) ? draw(random, 0, 300) : 1024};
    TaskQueue queue;
    Sums wanted;
    uint64_t number = 0;
    for (uint64_t i = draw(random, 0, 1000); i > 0; --i) {
      queue.add(draw_collective(random, ++number));
      if (queue.collectives.back().count) ++wanted.collectives[buffer(number)];
    }
    auto peer = [&] { return static_cast<int>(draw(random, 0, static_cast<uint64_t>(n_ranks - 1))); };
    for (uint64_t i = draw(random, 0, 1000); i > 0; --i, ++wanted.sends[buffer(number)])
      queue.add_send(peer(), {buffer(++number), draw_bytes(random), nullptr});
    for (uint64_t i = draw(random, 0, 1000); i > 0; --i, ++wanted.recvs[buffer(number)])
      queue.add_recv(peer(), {buffer(++number), draw_bytes(random), nullptr});
    const auto launches = make_plans(queue, rank, shape, budget, &kMove);
    const Sums sums = count_all(launches, shape, budget);
    EXPECT_EQ(sums.collectives, wanted.collectives);
    EXPECT_EQ(sums.sends, wanted.sends);
    EXPECT_EQ(sums.recvs, wanted.recvs);
    if (HasFailure()) FAIL() << "round " << round;
  }
}

// What all ranks must have in common: all but the sends and receives, and what is known of buffers.
struct CutItem {
  const gpu::Kernel* kernel;
  size_t launch;
  int channel;  // -1: of a one-shot, whose blocks work for all
  Algorithm algorithm;
  Protocol protocol;
  const void* send;
  uint64_t count;
  uint32_t chunk_bytes;
  uint16_t first_channel, n_channels, threads, addresses;
  bool operator==(const CutItem&) const = default;
};
using CollectiveCut = std::vector<CutItem>;
CutItem cut_of(const PlannedLaunch& launch, size_t number, int channel, const proto::Batch& batch,
               const CollectiveItem& item) {
  return {launch.kernel,      number,          channel,      batch.algorithm,
          batch.protocol,     item.send,       item.count,   item.chunk_bytes,
          item.first_channel, item.n_channels, item.threads, item.addresses};
}
CollectiveCut collective_cut(const std::vector<PlannedLaunch>& launches, const PlanBudget& budget, int warp) {
  CollectiveCut cut;
  for (size_t l = 0; l < launches.size(); ++l) {
    const PlannedLaunch& launch = launches[l];
    if (launch.kernel == &kFloatMesh || launch.kernel == &kMoveMesh) {
      for (uint32_t i = 0; i < launch.plan.n_items; ++i)
        cut.push_back(cut_of(launch, l, -1, launch.plan.batch(0), launch.plan.own_items()[i].collective));
      continue;
    }
    for (auto& [c, batches] : walk(launch, budget, warp))
      for (auto& walked : batches)
        if (!walked.pairs())
          for (auto* item : walked.items) cut.push_back(cut_of(launch, l, c, walked.batch, item->collective));
  }
  return cut;
}

// A rank that knows where some of its buffers are for others, in its own way.
class SomeAreKnown final : public UserBufferMarker {
 public:
  explicit SomeAreKnown(uint32_t seed) : random_(seed) {}
  bool mark(CollectiveItem& item, uint64_t, bool) override {
    item.direct = static_cast<uint8_t>(draw(random_, 0, 3));
    return true;
  }
  bool mark(SendRecvItem&, bool) override { return true; }
  bool open(const void*, bool, proto::BufferAddresses&) override { return draw(random_, 0, 1) != 0; }

 private:
  Random random_;
};

TEST(Planner, CutsCollectivesAlikeOnAllRanks) {
  Random random(2);
  std::set<Algorithm> seen;
  int zero_copies = 0;
  for (int round = 0; round < 40; ++round) {
    const int n_ranks = 8;
    const CommProperties shape = draw_shape(random, n_ranks);
    const PlanBudget budget{draw(random, 0, 400)};
    TaskQueue collectives;
    for (uint64_t i = draw(random, 1, 800); i > 0; --i) collectives.add(draw_collective(random, i));
    std::reverse(collectives.collectives.begin(), collectives.collectives.end());
    CollectiveCut first;
    for (int rank = 0; rank < n_ranks; ++rank) {
      SomeAreKnown known(static_cast<uint32_t>(100 * round + rank));
      TaskQueue queue = collectives;
      for (uint64_t i = draw(random, 0, 300); i > 0; --i) {
        const int peer = static_cast<int>(draw(random, 0, 7));
        if (draw(random, 0, 1))
          queue.add_send(peer, {buffer(i), draw_bytes(random), nullptr});
        else
          queue.add_recv(peer, {buffer(i), draw_bytes(random), nullptr});
      }
      const auto launches = make_plans(queue, rank, shape, budget, &kMove, &known);
      const CollectiveCut cut = collective_cut(launches, budget, shape.warp);
      if (rank == 0) first = cut;
      ASSERT_TRUE(cut == first) << "rank " << rank << " in round " << round;
    }
    for (const CutItem& item : first) {
      seen.insert(item.algorithm);
      zero_copies += item.addresses != 0;
    }
  }
  EXPECT_EQ(seen, (std::set<Algorithm>{Algorithm::ring, Algorithm::tree, Algorithm::one_shot, Algorithm::all_pairs}));
  EXPECT_GT(zero_copies, 0);
}

// All ranks' launches, run as devices would with connections that hold nothing: a send ends only with its receive, a
// collective only when every rank's block of the channel has come to it.
class World {
 public:
  World(std::vector<std::vector<PlannedLaunch>> launches, const CommProperties& shape) : shape_(shape) {
    for (auto& of_rank : launches) {
      auto& rank = ranks_.emplace_back();
      rank.launches = std::move(of_rank);
      start(rank);
    }
  }
  // Whether all of it comes to an end.
  bool run() {
    for (;;) {
      if (std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& r) { return r.blocks.empty(); })) return true;
      if (!step()) return false;
    }
  }

 private:
  struct Half {
    bool send;
    int peer;
    uint64_t bytes;
    bool operator==(const Half&) const = default;
  };
  struct Block {
    std::vector<WalkedBatch> batches;
    size_t batch = 0, item = 0;
    std::deque<Half> open;  // of a batch of pairs
    bool ended() const { return batch == batches.size(); }
  };
  struct Rank {
    std::vector<PlannedLaunch> launches;
    size_t next = 0;
    std::map<int, Block> blocks;  // by channel; none: all launches are done
  };

  void start(Rank& rank) {
    rank.blocks.clear();
    if (rank.next == rank.launches.size()) return;
    const PlannedLaunch& launch = rank.launches[rank.next++];
    for (auto& [c, batches] : walk(launch, {100000}, shape_.warp)) {
      rank.blocks[c].batches = batches;
      enter(rank.blocks[c], c);
    }
  }
  bool has_part(const SendRecvItem& pair, int parts, int c) const {
    const auto n = static_cast<uint32_t>(shape_.n_pair_channels);
    return proto::pair_part(pair.distance, static_cast<uint32_t>(c), n) < static_cast<uint32_t>(parts);
  }
  void enter(Block& block, int c) {
    block.item = 0;
    if (block.ended() || !block.batches[block.batch].pairs()) return;
    for (auto* item : block.batches[block.batch].items) {
      const SendRecvItem& pair = item->pair;
      if (pair.distance == 0) continue;  // a copy
      if (pair.send_peer >= 0 && has_part(pair, pair.send_parts, c))
        block.open.push_back({true, pair.send_peer, pair.send_bytes});
      if (pair.recv_peer >= 0 && has_part(pair, pair.recv_parts, c))
        block.open.push_back({false, pair.recv_peer, pair.recv_bytes});
    }
  }
  Block* block_of(int rank, int c) {
    auto& blocks = ranks_[static_cast<size_t>(rank)].blocks;
    auto found = blocks.find(c);
    return found == blocks.end() || found->second.ended() ? nullptr : &found->second;
  }

  // Lets go on what can. Whether anything did.
  bool step() {
    bool moved = false;
    for (int r = 0; r < static_cast<int>(ranks_.size()); ++r)
      for (auto& [c, block] : ranks_[static_cast<size_t>(r)].blocks)
        if (!block.ended()) moved = (block.batches[block.batch].pairs() ? pairs(r, c, block) : meet(c)) || moved;
    for (Rank& rank : ranks_) {
      if (rank.blocks.empty()) continue;
      if (std::all_of(rank.blocks.begin(), rank.blocks.end(), [](auto& b) { return b.second.ended(); })) {
        start(rank);
        moved = true;
      }
    }
    return moved;
  }
  bool pairs(int r, int c, Block& block) {
    bool moved = false;
    for (size_t i = 0; i < block.open.size();) {
      const Half half = block.open[i];
      Block* other = block_of(half.peer, c);
      const Half wanted{!half.send, r, half.bytes};
      auto found = other ? std::find(other->open.begin(), other->open.end(), wanted) : std::deque<Half>::iterator();
      if (!other || found == other->open.end()) {
        ++i;
        continue;
      }
      other->open.erase(found);
      block.open.erase(block.open.begin() + static_cast<std::ptrdiff_t>(i));
      moved = true;
    }
    if (!block.open.empty()) return moved;
    ++block.batch;
    enter(block, c);
    return true;
  }
  // The collective that the channel's blocks of all ranks are at, if it is one.
  bool meet(int c) {
    const void* buffer = nullptr;
    for (int r = 0; r < static_cast<int>(ranks_.size()); ++r) {
      Block* block = block_of(r, c);
      if (!block || block->batches[block->batch].pairs()) return false;
      const void* here = block->batches[block->batch].items[block->item]->collective.send;
      if (r > 0 && here != buffer) return false;
      buffer = here;
    }
    for (int r = 0; r < static_cast<int>(ranks_.size()); ++r) {
      Block* block = block_of(r, c);
      if (++block->item < block->batches[block->batch].items.size()) continue;
      ++block->batch;
      enter(*block, c);
    }
    return true;
  }

  CommProperties shape_;
  std::vector<Rank> ranks_;
};

TEST(Planner, NothingWaitsForEver) {
  Random random(3);
  for (int round = 0; round < 60; ++round) {
    const int n_ranks = static_cast<int>(draw(random, 2, 12));
    CommProperties shape = draw_shape(random, n_ranks);
    shape.mesh = false;
    const PlanBudget budget{draw(random, 0, 100)};
    std::vector<TaskQueue> queues(static_cast<size_t>(n_ranks));
    for (uint64_t i = draw(random, 0, 150); i > 0; --i) {
      const CollectiveTask task = draw_collective(random, i);
      for (TaskQueue& queue : queues) queue.add(task);
    }
    // Each rank calls in an order of its own; between two ranks, the order of messages is the same on both.
    std::vector<std::vector<std::pair<int, uint64_t>>> sends(queues.size()), recvs(queues.size());
    for (uint64_t i = draw(random, 0, 600); i > 0; --i) {
      const auto from = draw(random, 0, queues.size() - 1), to = draw(random, 0, queues.size() - 1);
      const uint64_t bytes = draw_bytes(random);
      sends[from].push_back({static_cast<int>(to), bytes});
      recvs[to].push_back({static_cast<int>(from), bytes});
    }
    auto by_peer = [&](auto& tasks) {  // other calls' order, the same between two ranks
      const auto turn = static_cast<int>(draw(random, 0, 11));
      std::stable_sort(tasks.begin(), tasks.end(),
                       [&](auto& a, auto& b) { return (a.first + turn) % n_ranks < (b.first + turn) % n_ranks; });
    };
    std::vector<std::vector<PlannedLaunch>> launches;
    for (size_t r = 0; r < queues.size(); ++r) {
      if (draw(random, 0, 1)) by_peer(sends[r]);
      if (draw(random, 0, 1)) by_peer(recvs[r]);
      for (auto& [peer, bytes] : sends[r]) queues[r].add_send(peer, {buffer(r), bytes, nullptr});
      for (auto& [peer, bytes] : recvs[r]) queues[r].add_recv(peer, {buffer(r), bytes, nullptr});
      launches.push_back(make_plans(queues[r], static_cast<int>(r), shape, budget, &kMove));
    }
    ASSERT_TRUE(World(std::move(launches), shape).run()) << "round " << round;
  }
}

TEST(Planner, AnAllToAllOfEightRanksIsOneLaunch) {
  for (const CommProperties& shape : {gpu_shape(8), emulated_shape(8)}) {
    for (uint64_t bytes : {uint64_t{0}, uint64_t{100}, uint64_t{1} << 20, uint64_t{1} << 30}) {
      TaskQueue queue;
      for (int peer = 0; peer < 8; ++peer) {
        queue.add_send(peer, {buffer(0), bytes, nullptr});
        queue.add_recv(peer, {buffer(1), bytes, nullptr});
      }
      const auto launches = make_plans(queue, 5, shape, {1024}, &kMove);
      ASSERT_EQ(launches.size(), 1u);
      EXPECT_EQ(launches[0].kernel, &kMove);
      EXPECT_EQ(launches[0].plan.n_items, 8u);  // a send and the receive of its round share one
      EXPECT_TRUE(launches[0].overflow.empty());
    }
  }
}

TEST(Planner, AMixedGroupOfOneFamilyIsOneLaunch) {
  TaskQueue queue;
  queue.add(collective(Function::all_gather, nullptr, 1000, 1));
  queue.add(collective(Function::all_reduce, &kInt, 1000, 2));
  queue.add(collective(Function::broadcast, nullptr, 1000, 3));
  queue.add_send(1, {buffer(4), 10, nullptr});
  const auto launches = make_plans(queue, 0, gpu_shape(4), {1024}, &kMove);
  ASSERT_EQ(launches.size(), 1u);
  EXPECT_EQ(launches[0].kernel, &kInt);
  for (auto& [c, batches] : walk(launches[0], {1024}, 32))
    for (auto& walked : batches)
      for (auto* item : walked.items) {
        if (walked.pairs()) continue;
        // Elements where they are reduced, else bytes.
        EXPECT_EQ(item->collective.count, walked.batch.function == Function::all_reduce ? 1000u : 4000u);
      }
}

TEST(Planner, SmallCollectivesRunSideBySide) {
  TaskQueue queue;
  for (uint64_t i = 0; i < 32; ++i) queue.add(collective(Function::all_reduce, &kInt, 8, i));
  const auto launches = make_plans(queue, 0, gpu_shape(4), {1024}, &kMove);
  ASSERT_EQ(launches.size(), 1u);
  EXPECT_EQ(launches[0].blocks(), 32);
}

TEST(Planner, FillsArgumentsThenTheFifoThenTheNextPlan) {
  CommProperties shape = gpu_shape(4);
  shape.n_channels = 1;
  auto launches_of = [&](uint64_t n, PlanBudget budget) {
    TaskQueue queue;
    for (uint64_t i = 0; i < n; ++i) queue.add(collective(Function::all_reduce, &kInt, 8, i));
    return make_plans(queue, 0, shape, budget, &kMove);
  };
  const size_t most = (proto::kPlanWorkBytes - sizeof(proto::Batch)) / sizeof(WorkItem);
  EXPECT_EQ(launches_of(most, {1000})[0].overflow.size(), 0u);
  EXPECT_EQ(launches_of(most + 1, {1000})[0].overflow.size(), most + 1);
  EXPECT_EQ(launches_of(1000, {1000}).size(), 1u);
  const auto two = launches_of(1001, {1000});
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two[0].overflow.size(), 1000u);
  EXPECT_EQ(two[1].plan.n_items, 1u);
  EXPECT_EQ(launches_of(most + 1, {0}).size(), 2u);
  // More batches than the arguments hold: one for each 64 items of the channel.
  const uint64_t all = proto::kPlanWorkBytes / sizeof(proto::Batch) * proto::kItemsPerBatch;
  const auto full = launches_of(all + 1, {60000});
  ASSERT_EQ(full.size(), 2u);
  EXPECT_EQ(full[0].overflow.size(), all);
}

TEST(Planner, OneShotsHaveLaunchesOfTheirOwn) {
  CommProperties shape = gpu_shape(4);
  shape.mesh = true;
  shape.one_shot_bytes = 1 << 20;
  TaskQueue queue;
  for (uint64_t i = 0; i < 100; ++i) {
    queue.add(collective(Function::all_reduce, &kFloat, 8, 2 * i));
    queue.add(collective(Function::all_gather, nullptr, 1 << 20, 2 * i + 1));
  }
  auto launches = make_plans(queue, 0, shape, {1024}, &kMove);
  ASSERT_EQ(launches.size(), 3u);  // 63 and 37 one-shots, and the rest
  EXPECT_EQ(launches[0].kernel, &kFloatMesh);
  EXPECT_EQ(launches[2].kernel, &kMove);
  EXPECT_TRUE(required_by(queue, 0, shape).mesh);
  shape.capturing = true;
  EXPECT_EQ(make_plans(queue, 0, shape, {1024}, &kMove).size(), 3u);
}

TEST(Planner, OneShotsOfSeveralFunctionsShareALaunch) {
  CommProperties shape = gpu_shape(4);
  shape.mesh = true;
  shape.one_shot_bytes = 1 << 20;
  TaskQueue queue;
  const Function moves[] = {Function::all_gather, Function::broadcast};
  const Function reduces[] = {Function::reduce, Function::all_reduce, Function::reduce_scatter, Function::scan,
                              Function::exscan};
  for (uint64_t i = 0; i < 6; ++i) {
    queue.add(collective(moves[i % 2], nullptr, 8, 2 * i));
    queue.add(collective(reduces[i % 5], &kFloat, 8, 2 * i + 1));
  }
  const auto launches = make_plans(queue, 3, shape, {1024}, &kMove);
  ASSERT_EQ(launches.size(), 2u);
  EXPECT_EQ(launches[0].kernel, &kMoveMesh);
  EXPECT_EQ(launches[1].kernel, &kFloatMesh);
  for (uint32_t i = 0; i < 6; ++i) {
    EXPECT_EQ(launches[0].plan.own_items()[i].collective.function, moves[i % 2]);
    EXPECT_EQ(launches[1].plan.own_items()[i].collective.function, reduces[i % 5]);
    EXPECT_EQ(launches[0].plan.own_items()[i].collective.next_rank, 0);
  }
}

// A kernel of all pairs, or of all ranks' buffers, knows no messages: they have a launch of their own, or share that of
// what goes by connections, which comes last.
TEST(Planner, MessagesJoinOnlyWhatGoesByConnections) {
  CommProperties shape = gpu_shape(4);
  shape.mesh = shape.line_mesh = shape.ll128 = true;
  shape.all_pairs_bytes = 1 << 20;
  shape.zero_copy_bytes = 1 << 22;
  using Kernels = std::vector<const gpu::Kernel*>;
  const auto kernels = [&](std::vector<CollectiveTask> collectives) {
    TaskQueue queue;
    for (const CollectiveTask& task : collectives) queue.add(task);
    queue.add_send(2, {buffer(7), 999, nullptr});
    Kernels used;
    for (const PlannedLaunch& launch : make_plans(queue, 1, shape, {100}, &kMove)) used.push_back(launch.kernel);
    return used;
  };
  const auto sum = [](uint64_t count, uint64_t number) {
    return collective(Function::all_reduce, &kFloat, count, number);
  };
  CollectiveTask by_rings = collective(Function::all_reduce, &kInt, 8 << 20, 3);
  by_rings.kernels.one_shot = nullptr;
  EXPECT_EQ(kernels({sum(1 << 18, 0)}), (Kernels{&kFloatPairs, &kMove}));
  EXPECT_EQ(kernels({sum(1 << 20, 0)}), (Kernels{&kFloatOpenPairs, &kMove}));
  EXPECT_EQ(kernels({sum(4 << 20, 0)}), (Kernels{&kFloatOpenRings, &kMove}));
  EXPECT_EQ(kernels({by_rings, sum(1 << 18, 0)}), (Kernels{&kFloatPairs, &kInt})) << "messages share the last";
}

// Remembers what it was asked of, and marks it.
struct Marker final : UserBufferMarker {
  bool mark(CollectiveItem& item, uint64_t output_bytes, bool) override {
    item.direct = proto::kLooksForGrants;
    asked.push_back(output_bytes);
    return varies;
  }
  bool mark(SendRecvItem& item, bool) override {
    item.direct = proto::kGrants;
    asked.push_back(item.send_bytes);
    return varies;
  }
  // What peer p knows as the buffer's address.
  static uint8_t* known_as(const void* buffer, int peer) {
    return static_cast<uint8_t*>(const_cast<void*>(buffer)) + 4096 * peer;
  }
  bool open(const void* buffer, bool, proto::BufferAddresses& addresses) override {
    for (int peer = 0; peer < proto::kZeroCopyRanks; ++peer) addresses.at[peer] = known_as(buffer, peer);
    opened.push_back(buffer);
    return opens;
  }
  std::vector<uint64_t> asked;
  std::vector<const void*> opened;
  bool varies = false, opens = true;
};

// What is reduced on this device alone, copied and unpacked, has launches of its own, in this order.
TEST(Planner, WhatIsOnThisDeviceAloneStandsAroundTheRest) {
  TaskQueue queue;
  const gpu::Kernel pack = {"pack", nullptr, nullptr};
  uint8_t bytes[4] = {};
  const auto item = [&](int i) {
    proto::PackItem made = {};
    made.memory = &bytes[i];
    made.bytes = 1;
    return made;
  };
  const auto reduction = [](uint64_t count, uint32_t rank) {
    proto::LocalReduction made = {};
    made.count = count;
    made.rank = rank;
    return made;
  };
  queue.packing = &pack;
  queue.before.push_back(item(0));
  for (uint32_t i = 0; i < 2; ++i) queue.reductions.push_back({&kFloat, reduction(100, i), 4});
  queue.sends.push_back({1, bytes, 4});
  queue.late_reductions.push_back({&kInt, reduction(200, 2), 4});
  queue.spread.push_back(item(1));
  queue.after.push_back(item(2));
  const auto launches = make_plans(queue, 0, gpu_shape(2), {1024}, &kMove);
  ASSERT_EQ(launches.size(), 7u);
  const gpu::Kernel* const kernels[] = {&pack, &kFloat, &kFloat, &kMove, &kInt, &pack, &pack};
  for (size_t i = 0; i < launches.size(); ++i) {
    EXPECT_EQ(launches[i].kernel, kernels[i]) << i;
    EXPECT_EQ(launches[i].stage, i < 3 ? Stage::pack : i == 3 ? Stage::run : Stage::unpack) << i;
  }
  EXPECT_EQ(proto::local_reduction(launches[1].plan).rank, 0u);
  EXPECT_EQ(proto::local_reduction(launches[2].plan).rank, 1u);
  EXPECT_EQ(proto::local_reduction(launches[4].plan).count, 200u);
  EXPECT_EQ(proto::pack_items(launches[5].plan)->memory, &bytes[1]);
  EXPECT_EQ(proto::pack_items(launches[6].plan)->memory, &bytes[2]);
  TaskQueue twice = queue;
  twice.append(queue);
  EXPECT_EQ(make_plans(twice, 0, gpu_shape(2), {1024}, &kMove).size(), 10u);
  twice.clear();
  EXPECT_TRUE(make_plans(twice, 0, gpu_shape(2), {1024}, &kMove).empty());
}

TEST(Planner, GivesAllBlocksSomeOfWhatIsPacked) {
  const gpu::Kernel pack = {"pack", nullptr, nullptr};
  CommProperties shape = gpu_shape(2);
  const auto plan_of = [&](size_t items, uint64_t bytes) {
    TaskQueue queue;
    queue.packing = &pack;
    proto::PackItem item = {};
    item.bytes = bytes;
    item.unit = 4;
    queue.spread.assign(items, item);
    auto launches = make_plans(queue, 0, shape, {1024}, &kMove);
    EXPECT_EQ(launches.size(), 1u);
    return launches[0];
  };
  const uint64_t tile = uint64_t{proto::kPackUnroll} * static_cast<uint64_t>(gpu_shape(2).threads) * 16;
  for (const auto& [tiles, limit] : {std::pair<uint64_t, int>{1, CommProperties::kNoLimit},
                                     {16, CommProperties::kNoLimit},
                                     {100, CommProperties::kNoLimit},
                                     {100, 3}}) {
    shape.max_blocks = limit;
    const PlannedLaunch launch = plan_of(16, tiles * tile - 1);
    if (limit == 3)
      EXPECT_EQ(launch.plain_blocks, 3);
    else
      EXPECT_GE(launch.plain_blocks, 16);
    std::vector<uint64_t> taken(static_cast<size_t>(launch.plain_blocks));
    for (size_t i = 0; i < 16; ++i)
      for (uint64_t t = 0; t < tiles; ++t)
        ++taken[(proto::pack_items(launch.plan)[i].first_block + t) % static_cast<uint64_t>(launch.plain_blocks)];
    const auto [least, most] = std::minmax_element(taken.begin(), taken.end());
    EXPECT_LE(*most - *least, 1u) << tiles;
  }
}

TEST(Planner, AsksWhatMayBeDirect) {
  CommProperties shape = gpu_shape(4);
  constexpr uint64_t kMany = 16 << 20;
  const auto direct = [&](Function function, const gpu::Kernel* kernel, uint64_t count, uint32_t element_bytes = 4) {
    TaskQueue queue;
    queue.add(collective(function, kernel, count, 0));
    queue.collectives[0].element_bytes = element_bytes;
    Marker marker;
    const auto launches = make_plans(queue, 1, shape, {100}, &kMove, &marker);
    EXPECT_EQ(launches[0].plan.own_items()->collective.direct, marker.asked.size());
    return marker.asked;
  };
  using Sizes = std::vector<uint64_t>;
  EXPECT_EQ(direct(Function::broadcast, nullptr, kMany), Sizes{kMany * 4});
  EXPECT_EQ(direct(Function::all_gather, nullptr, kMany), Sizes{kMany * 16});
  EXPECT_EQ(direct(Function::all_reduce, &kFloat, kMany), Sizes{kMany * 4});
  EXPECT_EQ(direct(Function::all_reduce, &kFloat, kMany, 16), Sizes{}) << "its scalar lies where a grant would";
  EXPECT_EQ(direct(Function::reduce, &kFloat, kMany), Sizes{});
  EXPECT_EQ(direct(Function::reduce_scatter, &kFloat, kMany), Sizes{});
  EXPECT_EQ(direct(Function::broadcast, nullptr, 1), Sizes{}) << "over LL";

  TaskQueue queue;
  queue.add_send(2, {buffer(0), 999, nullptr});
  Marker marker;
  const auto launches = make_plans(queue, 1, shape, {100}, &kMove, &marker);
  EXPECT_EQ(marker.asked, Sizes{999});
  EXPECT_EQ(launches[0].plan.own_items()->pair.direct, proto::kGrants);
}

// Addresses lie behind their item, in as many places whether they are known or not, and are no batch's.
TEST(Planner, LaysAddressesBehindZeroCopyOperations) {
  CommProperties shape = gpu_shape(4);
  shape.mesh = shape.line_mesh = shape.ll128 = true;
  shape.zero_copy_bytes = 1 << 20;
  shape.all_pairs_bytes = 4 << 20;
  auto* const send = static_cast<uint8_t*>(buffer(0));
  void* const recv = buffer(1 << 20);
  const auto plan = [&](Function function, const void* input, Marker& marker, uint32_t root = 1) {
    TaskQueue queue;
    for (uint64_t i = 0; i < 2; ++i) queue.add(collective(function, &kFloat, 1 << 20, i));
    for (CollectiveTask& task : queue.collectives) {
      task.send = input;
      task.recv = recv;
      task.root = root;
    }
    const auto launches = make_plans(queue, 1, shape, {100}, &kMove, &marker);
    EXPECT_EQ(launches.size(), 1u);
    EXPECT_TRUE(launches[0].varies);
    return launches[0].plan;
  };
  for (bool opens : {true, false}) {
    Marker marker;
    marker.opens = opens;
    const proto::Plan made = plan(Function::all_reduce, send, marker);
    ASSERT_EQ(made.n_items, 6u);
    for (uint32_t i : {0u, 3u}) {
      const CollectiveItem& item = made.own_items()[i].collective;
      EXPECT_EQ(item.addresses, i + 1);
      EXPECT_EQ(item.open, opens);
      if (!opens) continue;
      for (int peer = 0; peer < proto::kZeroCopyRanks; ++peer) {
        EXPECT_EQ(made.own_items()[i + 1].addresses.at[peer], Marker::known_as(send, peer));
        EXPECT_EQ(made.own_items()[i + 2].addresses.at[peer], Marker::known_as(recv, peer));
      }
    }
    for (uint32_t b = 0; b < made.n_batches; ++b)
      EXPECT_EQ(uint64_t{made.batch(b).items} << made.batch(b).base & ~uint64_t{0b1001}, 0u);
  }
  const auto opened = [&](Function function, uint32_t root) {
    Marker marker;
    EXPECT_EQ(plan(function, send, marker, root).own_items()->collective.open, 1);
    return marker.opened.size() / 2;
  };
  EXPECT_EQ(opened(Function::reduce, 1), 2u);
  EXPECT_EQ(opened(Function::reduce, 2), 1u) << "only the root's output is written";
  EXPECT_EQ(opened(Function::reduce_scatter, 0), 1u);
  Marker marker;
  EXPECT_EQ(plan(Function::all_reduce, send + 4, marker).own_items()->collective.open, 0) << "no whole packs";
}

TEST(Planner, TellsWhichPlansVary) {
  CommProperties shape = gpu_shape(4);
  constexpr uint64_t kMany = 16 << 20;
  for (bool varies : {false, true}) {
    Marker marker;
    marker.varies = varies;
    TaskQueue queue;
    queue.add(collective(Function::broadcast, nullptr, 1, 0));
    EXPECT_FALSE(make_plans(queue, 1, shape, {100}, &kMove, &marker)[0].varies);
    queue.add(collective(Function::broadcast, nullptr, kMany, 1));
    EXPECT_EQ(make_plans(queue, 1, shape, {100}, &kMove, &marker)[0].varies, varies);
    TaskQueue pairs;
    pairs.add_send(2, {buffer(0), 999, nullptr});
    EXPECT_EQ(make_plans(pairs, 1, shape, {100}, &kMove, &marker)[0].varies, varies);
  }
}

TEST(Planner, EmptyTasks) {
  TaskQueue queue;
  EXPECT_TRUE(make_plans(queue, 0, gpu_shape(2), {10}, &kMove).empty());
  queue.add(collective(Function::all_reduce, &kInt, 0, 1));
  EXPECT_TRUE(make_plans(queue, 0, gpu_shape(2), {10}, &kMove).empty());
  EXPECT_FALSE(required_by(queue, 0, gpu_shape(2)).ring);
  queue.add_send(1, {nullptr, 0, nullptr});
  const auto launches = make_plans(queue, 0, gpu_shape(2), {10}, &kMove);
  ASSERT_EQ(launches.size(), 1u);
  EXPECT_EQ(launches[0].plan.own_items()[0].pair.send_peer, 1);
  EXPECT_EQ(launches[0].plan.own_items()[0].pair.recv_peer, -1);
}

TEST(Planner, NeedsNameEachPeerOnce) {
  TaskQueue queue;
  for (int peer : {3, 1, 3, 0}) queue.add_send(peer, {nullptr, 8, nullptr});
  for (int peer : {2, 2}) queue.add_recv(peer, {nullptr, 8, nullptr});
  const Requirements required = required_by(queue, 0, gpu_shape(4));
  EXPECT_EQ(required.send_to, (std::vector<int>{1, 3}));
  EXPECT_EQ(required.receive_from, (std::vector<int>{2}));
  EXPECT_FALSE(required.ring || required.tree || required.mesh);
}

TEST(Planner, NeedsNoMoreChannelsThanItSays) {
  Random random(11);
  for (int round = 0; round < 2000; ++round) {
    const CommProperties shape = draw_shape(random, 8);
    TaskQueue queue;
    for (uint64_t i = draw(random, 1, 6); i > 0; --i) queue.add(draw_collective(random, i));
    const int channels = required_by(queue, 1, shape).channels;
    for (const PlannedLaunch& launch : make_plans(queue, 1, shape, {100}, &kMove)) {
      if (launch.kernel != &kFloatMesh && launch.kernel != &kMoveMesh) {
        ASSERT_LE(std::bit_width(launch.plan.channel_mask), channels) << "round " << round;
      }
    }
  }
}

}  // namespace

// Expects that each rank receives from each other one what that one sends, in its order.
void expect_that_messages_fit(const std::vector<TaskQueue>& queues) {
  const auto n = static_cast<int>(queues.size());
  for (int from = 0; from < n; ++from)
    for (int to = 0; to < n; ++to) {
      std::vector<uint64_t> sent, received;
      for (const TaskQueue::Pair& send : queues[static_cast<size_t>(from)].sends)
        if (send.peer == to) sent.push_back(send.bytes);
      for (const TaskQueue::Pair& recv : queues[static_cast<size_t>(to)].recvs)
        if (recv.peer == from) received.push_back(recv.bytes);
      EXPECT_EQ(sent, received) << from << " to " << to << " of " << n;
    }
}

// Sender, receiver, bytes and buffers of all messages, and what is left of the collectives.
TEST(CollectiveMessages, BecomeMessagesThatFitTogether) {
  constexpr uint64_t count = 1000;
  for (int n : {1, 2, 3, 5}) {
    CommProperties shape = gpu_shape(n);
    shape.copies.messages = 4 * count;
    const bool gathers = n == 2 || n == 5;
    if (gathers) shape.copies.all_gathers = 4 * count;
    for (int root : {0, n - 1}) {
      std::vector<TaskQueue> queues(static_cast<size_t>(n));
      for (int r = 0; r < n; ++r) {
        TaskQueue& queue = queues[static_cast<size_t>(r)];
        queue.add_send((r + 1) % n, {buffer(100), 7, nullptr});  // the caller's own stays in front
        queue.add_recv((r + n - 1) % n, {buffer(101), 7, nullptr});
        CollectiveTask broadcast = collective(Function::broadcast, nullptr, count, 10);
        broadcast.root = static_cast<uint32_t>(root);
        if (r % 2) broadcast.send = broadcast.recv;
        for (const CollectiveTask& task : {collective(Function::all_gather, nullptr, count, 0), broadcast,
                                           collective(Function::all_gather, nullptr, count - 1, 20),
                                           collective(Function::all_reduce, &kFloat, count, 30)})
          queue.add(task);
        replace_by_messages(&queue, r, shape);
        ASSERT_EQ(queue.collectives.size(), n == 2 ? 2u : gathers ? 3u : 4u);
        EXPECT_EQ(queue.collectives.back().function, Function::all_reduce);
        EXPECT_EQ(queue.sends.front().bytes, 7u);
        EXPECT_EQ(queue.recvs.front().bytes, 7u);
        if (!gathers) continue;
        // Each block of the gathered comes from its rank, this rank's own included.
        std::set<std::pair<int, const void*>> places;
        for (const TaskQueue::Pair& recv : queue.recvs) places.insert({recv.peer, recv.buffer});
        for (int from = 0; from < n; ++from)
          EXPECT_TRUE(places.count({from, static_cast<uint8_t*>(buffer(1)) + static_cast<uint64_t>(from) * count * 4}));
      }
      expect_that_messages_fit(queues);
    }
  }
}

// Each rank gets the others' operands, in memory that no other exchange of the group uses, and reduces them in the
// order of the ranks.
TEST(CollectiveMessages, SmallAllReducesAreExchanged) {
  const gpu::Kernel local = {"on one device", nullptr, nullptr};
  for (int n : {2, 3, kMostExchanging}) {
    CommProperties shape = gpu_shape(n);
    shape.exchange_bytes = kMostExchangedBytes;
    const uint64_t most = kMostExchangedBytes / 4;
    std::vector<std::vector<uint8_t>> memory(static_cast<size_t>(n), std::vector<uint8_t>(exchange_memory_bytes(n)));
    std::vector<TaskQueue> queues(static_cast<size_t>(n));
    for (int r = 0; r < n; ++r) {
      TaskQueue& queue = queues[static_cast<size_t>(r)];
      queue.add(collective(Function::all_reduce, &kFloat, 5, 0));  // there is no kernel for one device
      for (uint64_t count : {most + 1, uint64_t{0}, most}) {
        CollectiveTask task = collective(Function::all_reduce, &kFloat, count, 10);
        task.kernels.local = &local;
        queue.add(task);
      }
      for (uint64_t i = 1; i < kMostExchanges; ++i) {
        CollectiveTask task = collective(Function::all_reduce, &kFloat, i, 20 + i);
        task.kernels.local = &local;
        queue.add(task);
      }
      TaskQueue none = queue, many = queue;
      replace_by_messages(&none, r, shape);
      EXPECT_EQ(none.collectives.size(), 11u) << "there is no memory for operands";
      const CollectiveTask one_more = many.collectives.back();
      many.add(one_more);
      uint8_t* const operands = memory[static_cast<size_t>(r)].data();
      replace_by_messages(&many, r, shape, operands);
      EXPECT_EQ(many.collectives.size(), 12u) << "there is not enough of it";
      replace_by_messages(&queue, r, shape, operands);
      replace_by_messages(&queue, r, shape, operands);  // as after connections have been made
      ASSERT_EQ(queue.collectives.size(), 3u) << "too large, empty, or without a kernel";
      ASSERT_EQ(queue.late_reductions.size(), static_cast<size_t>(kMostExchanges));
      ASSERT_EQ(queue.sends.size(), queue.late_reductions.size() * static_cast<size_t>(n - 1));

      std::set<const uint8_t*> landed;
      std::vector<size_t> received(static_cast<size_t>(n));
      for (size_t i = 0; i < queue.late_reductions.size(); ++i) {
        const LocalTask& task = queue.late_reductions[i];
        EXPECT_EQ(task.kernel, &local);
        EXPECT_EQ(task.reduction.n_ranks, static_cast<uint32_t>(n));
        EXPECT_EQ(task.reduction.rank, static_cast<uint32_t>(r));
        EXPECT_TRUE(task.reduction.waited);
        EXPECT_EQ(task.reduction.count, i == 0 ? most : i);
        for (int from = 0; from < n; ++from) {
          if (from == r) continue;
          const auto its = std::find_if(queue.recvs.begin(), queue.recvs.end(),
                                        [&, seen = received[static_cast<size_t>(from)]](const auto& recv) mutable {
                                          return recv.peer == from && seen-- == 0;
                                        });
          ++received[static_cast<size_t>(from)];
          ASSERT_NE(its, queue.recvs.end());
          EXPECT_EQ(its->bytes, 4 * task.reduction.count);
          const auto place = static_cast<uint64_t>(from < r ? from : from - 1);
          const uint8_t* const at = task.reduction.others + place * task.reduction.stride;
          EXPECT_EQ(its->buffer, at);
          EXPECT_TRUE(landed.insert(at).second);
          EXPECT_LE(at + its->bytes, memory[static_cast<size_t>(r)].data() + exchange_memory_bytes(n));
        }
      }
      const uint8_t* before = nullptr;
      for (const uint8_t* at : landed) {
        EXPECT_TRUE(!before || at - before >= static_cast<ptrdiff_t>(kMostExchangedBytes));
        before = at;
      }
    }
    expect_that_messages_fit(queues);
  }
}

// Without exchanges there is no memory for them.
TEST(CollectiveMessages, ParametersSayHowLongExchangesAre) {
  EXPECT_EQ(most_exchanged_bytes(2, 2), kMostExchangedBytes);
  EXPECT_EQ(most_exchanged_bytes(kMostExchanging, kMostExchanging), kMostExchangedBytes);
  EXPECT_EQ(most_exchanged_bytes(kMostExchanging + 1, kMostExchanging + 1), 0u);
  EXPECT_EQ(most_exchanged_bytes(3, 2), 0u);
  EXPECT_EQ(most_exchanged_bytes(1, 1), 0u);
  set_param("exchange_bytes", "100", "test").ignore();
  EXPECT_EQ(most_exchanged_bytes(2, 2), 100u);
  set_param("exchange_bytes", "off", "test").ignore();
  EXPECT_EQ(most_exchanged_bytes(2, 2), 0u);
  set_param("exchange_bytes", "auto", "test").ignore();
}

// Blocks between pairs of ranks: small ones stay collectives where there is a mesh, else all ranks make the same
// messages of them.
TEST(CollectiveMessages, ExchangesAreMessagesWhereNoOneShotTakesThem) {
  constexpr uint64_t kBytes = 100;
  CommProperties shape = gpu_shape(4);
  shape.mesh = true;
  shape.one_shot_bytes = 4 * kBytes;
  for (Function function : {Function::all_to_all, Function::gather, Function::scatter}) {
    EXPECT_FALSE(goes_as_messages(function, kBytes, shape));
    EXPECT_TRUE(goes_as_messages(function, kBytes + 1, shape));
    EXPECT_FALSE(goes_as_messages(function, 0, shape));
    CommProperties without = shape;
    without.mesh = false;
    EXPECT_TRUE(goes_as_messages(function, 1, without));

    std::vector<TaskQueue> queues(4);
    for (int r = 0; r < 4; ++r) {
      CollectiveTask task = collective(function, nullptr, kBytes, 10);
      task.element_bytes = 1;
      task.root = 2;
      queues[static_cast<size_t>(r)].add(task);
      replace_by_messages(&queues[static_cast<size_t>(r)], r, without);
      EXPECT_TRUE(queues[static_cast<size_t>(r)].collectives.empty());
    }
    for (int from = 0; from < 4; ++from) {
      for (int to = 0; to < 4; ++to) {
        const bool meant = function == Function::all_to_all || (function == Function::gather ? to : from) == 2;
        const auto goes = [&](const TaskQueue::Pair& pair, int peer) {
          return pair.peer == peer && pair.bytes == kBytes;
        };
        const auto &sends = queues[static_cast<size_t>(from)].sends, &recvs = queues[static_cast<size_t>(to)].recvs;
        EXPECT_EQ(std::count_if(sends.begin(), sends.end(), [&](const auto& p) { return goes(p, to); }), meant ? 1 : 0);
        EXPECT_EQ(std::count_if(recvs.begin(), recvs.end(), [&](const auto& p) { return goes(p, from); }),
                  meant ? 1 : 0);
      }
    }
  }
}

TEST(CollectiveMessages, ExchangesAreMessagesWhereTheseWereMeasuredToBeFaster) {
  CommProperties shape = gpu_shape(4);
  shape.mesh = true;
  shape.one_shot_bytes = 1 << 20;
  TuningTable table;
  shape.table = &table;
  const auto times = [&](Algorithm algorithm, Protocol protocol) -> TuningTable::Points& {
    return table
        .points[static_cast<int>(Function::all_to_all)][static_cast<int>(algorithm)][static_cast<int>(protocol)];
  };
  times(Algorithm::one_shot, Protocol::ll) = {{8, 10}, {1000, 60}};
  EXPECT_FALSE(goes_as_messages(Function::all_to_all, 1000, shape)) << "no message was measured";
  times(Algorithm::pairwise, Protocol::simple) = {{8, 20}, {1000, 30}};
  EXPECT_FALSE(goes_as_messages(Function::all_to_all, 8, shape));
  EXPECT_TRUE(goes_as_messages(Function::all_to_all, 1000, shape));
  set_param("algorithm", "one_shot", "test").ignore();
  EXPECT_FALSE(goes_as_messages(Function::all_to_all, 1000, shape));
  set_param("algorithm", "auto", "test").ignore();
}

TEST(CollectiveMessages, AreKernelsWhereNoCopyEngineMoves) {
  CommProperties shape = gpu_shape(2);
  using Limit = uint64_t CopyEngineLimits::*;
  for (const auto& [function, limit] :
       {std::pair<Function, Limit>{Function::all_gather, &CopyEngineLimits::all_gathers},
        {Function::broadcast, &CopyEngineLimits::messages}}) {
    EXPECT_FALSE(goes_as_messages(function, uint64_t{1} << 40, shape));
    shape.copies.*limit = 1000;
    EXPECT_FALSE(goes_as_messages(function, 999, shape));
    EXPECT_TRUE(goes_as_messages(function, 1000, shape));
    shape.copies.*limit = 0;
  }
  shape.copies.messages = shape.copies.all_gathers = 1000;
  for (Function function : {Function::all_reduce, Function::reduce, Function::reduce_scatter})
    EXPECT_FALSE(goes_as_messages(function, uint64_t{1} << 40, shape));
  shape.n_ranks = 3;
  EXPECT_FALSE(goes_as_messages(Function::broadcast, uint64_t{1} << 40, shape));
  EXPECT_TRUE(goes_as_messages(Function::all_gather, 1000, shape));
}

}  // namespace gpucoll::core
