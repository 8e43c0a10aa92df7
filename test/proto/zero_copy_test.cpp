// Reductions on the buffers of all ranks, through run_plan.
#include <atomic>

#include "collective_case.h"
#include "mesh_program.h"

namespace gpucoll {
namespace {

using proto::Function;
using test::Launch;
using test::Op;
using test::Options;

template <class Red>
void run(int n_ranks, int threads, std::vector<Launch> launches, const Options& options = {}) {
  test::run_operations<test::ZeroCopies, Red>(n_ranks, threads, std::move(launches), options);
}

constexpr Function kFunctions[] = {Function::all_reduce, Function::reduce_scatter, Function::reduce};
// ThreadSanitizer, which is slow, sees some numbers of ranks.
#if defined(__SANITIZE_THREAD__)
constexpr int kRanks[] = {2, 3, 6};
#else
constexpr int kRanks[] = {2, 3, 4, 5, 6, 7, 8};
#endif

// A rank's part of a reduce_scatter has whole packs.
Op operation(Function function, uint64_t count, int n_channels = 1, bool in_place = false, size_t root = 0) {
  if (function == Function::reduce_scatter) count = (count + 15) / 16 * 16;
  return {count, n_channels, in_place, 0, 0, function, root};
}

class ZeroCopy : public testing::TestWithParam<int> {};  // the parameter: threads a block

TEST_P(ZeroCopy, EveryNumberOfRanksAndOddCounts) {
  for (int n : kRanks) {
    for (Function function : kFunctions) {
      Launch launch;
      for (uint64_t count : {1, 2, 5, 31, 127, 601, 4001}) {
        launch.push_back(operation(function, count, 1, false, static_cast<size_t>(n) / 2));
        launch.push_back(operation(function, count, 1, true, static_cast<size_t>(n) - 1));
      }
      run<proto::Sum<float>>(n, GetParam(), {launch});
    }
  }
}

TEST_P(ZeroCopy, SeveralChannelsSomeWithoutAShare) {
  for (int n : {2, 3}) {
    for (Function function : kFunctions) {
      Launch launch;
      for (uint64_t count : {1, 7, 100, 2001}) launch.push_back(operation(function, count, 3, false, 1));
      run<proto::Sum<float>>(n, GetParam(), {launch, launch}, {.first_channel = 3});
    }
  }
}

// The others learn that one rank's buffers are not open to all, and go another way with it; and back.
TEST_P(ZeroCopy, GoesByLinesWhereOneIsClosed) {
  for (int n : {2, 3, 5}) {
    for (Function function : kFunctions) {
      Launch launch;
      for (int closed : {-1, 0, n - 1, -1, 1}) {
        launch.push_back(operation(function, 900, 2));
        launch.back().closed_rank = closed;
      }
      run<proto::Sum<float>>(n, GetParam(), {launch, launch});
    }
  }
}

// Where a ring would do it otherwise: with its bits, whether or not all buffers are known. A chunk has 512 bytes.
TEST_P(ZeroCopy, HasTheBitsOfARing) {
  using Red = proto::Sum<float>;
  for (int n : kRanks) {
    for (Function function : kFunctions) {
      test::Case c{function, proto::Algorithm::ring, proto::Protocol::simple, n, n % 3 + 1, GetParam(), 0};
      c.zero_copy = true;
      c.root = n - 1;
      for (uint64_t count : {3, 700, 4001}) {
        c.count = function == Function::reduce_scatter ? (count + 15) / 16 * 16 : count;
        c.in_place = count == 700;
        for (int closed : {-1, n / 2}) {
          c.closed_rank = closed;
          test::run_case<Red>(test::kernel_of<coll::device::ZeroCopyOrRing<proto::Family<Red>>>, c);
        }
      }
    }
  }
}

// Ranks drift apart: none may find a note of an opening that is over, nor miss one, nor end while others still read.
TEST_P(ZeroCopy, HundredsOfOperations) {
  std::mt19937 random(9);
  for (int n : {2, 3, 5}) {
    std::vector<Launch> launches(24);
    for (Launch& launch : launches) {
      for (uint64_t i = 1 + random() % 8; i > 0; --i) {
        const uint64_t count = random() % 3 == 0 ? 100 + random() % 900 : 1 + random() % 9;
        launch.push_back(operation(kFunctions[random() % std::size(kFunctions)], count,
                                   static_cast<int>(1 + random() % 3), random() % 2 == 0,
                                   random() % static_cast<size_t>(n)));
        if (random() % 4 == 0) launch.back().closed_rank = static_cast<int>(random() % static_cast<size_t>(n));
      }
      launch.front().n_channels = 3;  // each block has something to do
    }
    run<proto::Sum<uint32_t>>(n, GetParam(), launches);
  }
}

TEST_P(ZeroCopy, CountWraps) {
  for (uint32_t before : {1, 2, 3}) {
    const Launch launch = {operation(Function::all_reduce, 300, 2), operation(Function::all_reduce, 60, 2, true)};
    run<proto::Sum<float>>(3, GetParam(), {launch, launch}, {.first_opening = 0 - before});
  }
}

// All operands are prepared, as they lie.
TEST_P(ZeroCopy, AveragesOfNarrowFloats) {
  Options options;
  options.reduction.argument = 3;
  const Launch launch = {operation(Function::all_reduce, 99, 2)};
  for (int n : {2, 3}) run<proto::Avg<proto::Half>>(n, GetParam(), {launch}, options);
}

#if !defined(GC_FEW_TYPES)
TEST_P(ZeroCopy, HooksApplyOnce) {
  for (Function function : kFunctions) {
    const Launch launch = {operation(function, 99, 2, false, 1), operation(function, 5, 2, true, 1)};
    Options options;
    options.reduction.argument = 3;
    run<proto::Avg<float>>(3, GetParam(), {launch}, options);
    const float scalar = 1.25f;
    std::memcpy(&options.reduction.argument, &scalar, sizeof scalar);
    run<proto::PreMulSum<float>>(3, GetParam(), {launch}, options);
  }
}

TEST_P(ZeroCopy, EveryElementSizeAndNoPadding) {
  Launch launch;
  for (Function function : kFunctions)
    for (uint64_t count : {1, 130, 1111}) launch.push_back(operation(function, count, 2, count == 130, 1));
  test::run_every_element<test::ZeroCopies>(3, GetParam(), launch);
}
#endif

INSTANTIATE_TEST_SUITE_P(Threads, ZeroCopy, testing::Values(1, 3));

TEST(ZeroCopyFault, LatchEndsEveryWait) { test::expect_latch_ends_operations<test::ZeroCopies>(); }

// Instead of reading beyond the other's buffer, or storing into one that is not open.
TEST(ZeroCopyFault, CallsThatDifferAreReported) {
  const auto report = [](const Op& first, const Op& second) {
    test::World world(2, 1, 128);
    world.add_mesh();
    world.add_line_mesh();
    std::vector<std::vector<float>> data(2, std::vector<float>(64, 1.0f));
    std::vector<test::PlanMaker> ranks;
    for (size_t r = 0; r < 2; ++r) {
      const Op& op = r == 0 ? first : second;
      proto::WorkItem item{};
      item.collective.send = item.collective.recv = data[r].data();
      item.collective.count = op.count;
      item.collective.root = static_cast<uint32_t>(op.root);
      item.collective.n_channels = 1;
      item.collective.threads = 3;
      item.collective.open = 1;
      test::ZeroCopies::add(ranks.emplace_back(1), {op}, {item});
    }
    test::run_plans(test::kernel_of<coll::device::ZeroCopyOrAllPairs<proto::Sum<float>>>, world, ranks, 3);
    return world.latch();
  };
  const auto all_reduce = [](uint64_t count) { return operation(Function::all_reduce, count); };
  const auto reduce = [](size_t root) { return operation(Function::reduce, 48, 1, false, root); };
  const proto::FaultLatch counts = report(all_reduce(48), all_reduce(64));
  EXPECT_EQ(counts.kind, proto::kFaultCounts);
  EXPECT_EQ(counts.sent_bytes, counts.peer == 1 ? 64u : 48u);
  EXPECT_EQ(counts.sent_bytes + counts.expected_bytes, 112u);
  for (const proto::FaultLatch& calls : {report(all_reduce(48), reduce(0)), report(reduce(1), reduce(0))}) {
    EXPECT_EQ(calls.kind, proto::kFaultCounts);
    EXPECT_EQ(calls.sent_bytes, 48u);
    EXPECT_EQ(calls.expected_bytes, 48u);
  }
}

TEST(ZeroCopyFault, WhatMustBeEqualIsTold) {
  const uint64_t call = proto::call_word(1 << 20, Function::reduce, 5, 4);
  EXPECT_EQ(proto::count_of_call(call), 1u << 20);
  EXPECT_EQ(call & proto::kAddressesKnown, 0u);
  EXPECT_NE(call, proto::call_word(1 << 20, Function::reduce, 6, 4));
  EXPECT_NE(call, proto::call_word(1 << 20, Function::reduce, 5, 8));
  EXPECT_NE(call, proto::call_word(1 << 20, Function::all_reduce, 5, 4));
  EXPECT_EQ(proto::call_word(7, Function::all_reduce, 1, 4), proto::call_word(7, Function::all_reduce, 2, 4));
  EXPECT_EQ(proto::call_word(0, Function::scatter, 0, 63) & proto::kAddressesKnown, 0u);
}

// A rank may use its output, and fill its input anew, as soon as its own block has ended.
TEST(ZeroCopyEnd, BuffersAreTheRanksOwnAgain) {
  constexpr int kRanks = 3;
  constexpr uint32_t kRounds = 40;
  constexpr size_t kCount = 300;
  test::World world(kRanks, 1, 128);
  world.add_mesh();
  world.add_line_mesh();
  const auto value = [](size_t rank, size_t i, uint32_t round) {
    return static_cast<uint32_t>(rank * 1000003 + i * 7 + round * 31);
  };
  std::vector<std::vector<uint32_t>> in(kRanks, std::vector<uint32_t>(kCount)), out = in;
  std::vector<test::PlanMaker> makers;
  std::vector<proto::Plan> plans;
  for (size_t r = 0; r < kRanks; ++r) {
    proto::WorkItem item{};
    item.collective.send = in[r].data();
    item.collective.recv = out[r].data();
    item.collective.count = kCount;
    item.collective.n_channels = item.collective.threads = item.collective.open = 1;
    test::ZeroCopies::add(makers.emplace_back(1), {{kCount}}, {item});
  }
  for (size_t r = 0; r < kRanks; ++r) {
    plans.push_back(makers[r].make(false));
    plans[r].comm = &world.comm(static_cast<int>(r));
  }
  std::atomic<bool> differs{false};
  test::run_grids(kRanks, 1, 1, [&](int rank, const gpu::EmuBlock& block) {
    const auto r = static_cast<size_t>(rank);
    for (uint32_t round = 0; round < kRounds; ++round) {
      for (size_t i = 0; i < kCount; ++i) in[r][i] = value(r, i, round);
      test::kernel_of<coll::device::ZeroCopyOrAllPairs<proto::Sum<uint32_t>>>(block, plans[r]);
      for (size_t i = 0; i < kCount; ++i) {
        uint32_t want = 0;
        for (size_t other = 0; other < kRanks; ++other) want += value(other, i, round);
        if (out[r][i] != want) differs = true;
      }
    }
  });
  EXPECT_FALSE(differs);
}

}  // namespace
}  // namespace gpucoll
