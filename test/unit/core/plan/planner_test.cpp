// The planner on groups of one kind: what shares a launch, what has one of its own, and what a plan says of buffers.
#include "core/plan/planner.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/connect/requirements.h"
#include "core/plan/collective_send_recv.h"
#include "plan_walk.h"
#include "planner_cases.h"

namespace gpucoll::core {
namespace {

using proto::CollectiveItem;
using proto::SendRecvItem;
using proto::WorkItem;

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
}  // namespace gpucoll::core
