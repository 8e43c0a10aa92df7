// The planner on groups that are drawn: every task planned once, within all limits, cut alike on all ranks, and nothing
// waits for ever.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <set>

#include "core/plan/planner.h"
#include "plan_walk.h"
#include "planner_cases.h"
#include "proto/pairs.h"

namespace gpucoll::core {
namespace {

using proto::CollectiveItem;
using proto::SendRecvItem;
using proto::WorkItem;

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

}  // namespace
}  // namespace gpucoll::core
