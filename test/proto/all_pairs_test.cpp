// All-pairs collectives through run_plan.
#include "mesh_program.h"

namespace gpucoll {
namespace {

using proto::Function;
using test::kMostItems;
using test::Launch;
using test::Op;
using test::Options;

template <class Red>
void run(int n_ranks, int threads, std::vector<Launch> launches, const Options& options = {}) {
  test::run_operations<test::AllPairs, Red>(n_ranks, threads, std::move(launches), options);
}

constexpr Function kFunctions[] = {Function::all_reduce, Function::reduce_scatter, Function::reduce,
                                   Function::all_gather, Function::broadcast,      Function::all_to_all,
                                   Function::gather,     Function::scatter};
constexpr Function kReduces[] = {Function::all_reduce, Function::reduce_scatter, Function::reduce};
// ThreadSanitizer, which is slow, sees every other number of ranks.
#if defined(__SANITIZE_THREAD__)
constexpr int kRanks[] = {2, 5};
#else
constexpr int kRanks[] = {2, 3, 4, 5, 8, 9, 16};
#endif

class AllPairs : public testing::TestWithParam<int> {};  // the parameter: threads a block

TEST_P(AllPairs, EveryNumberOfRanksAndOddCounts) {
  for (int n : kRanks) {
    for (Function function : kFunctions) {
      const size_t root = static_cast<size_t>(n) / 2;
      Launch launch;
      for (uint64_t count : {1, 2, 5, 31, 127, 601, 4001}) {
        launch.push_back({count, 1, false, 0, 0, function, root});
        launch.push_back({count, 1, true, 0, 0, function, root});
      }
      run<proto::Sum<float>>(n, GetParam(), {launch});
    }
  }
}

TEST_P(AllPairs, AtEveryRoot) {
  for (Function function : {Function::reduce, Function::broadcast, Function::gather, Function::scatter}) {
    Launch launch;
    for (size_t root = 0; root < 4; ++root) {
      launch.push_back({301, 1, false, 0, 0, function, root});
      launch.push_back({1001, 1, true, 0, 0, function, root, 128});
    }
    run<proto::Sum<float>>(4, GetParam(), {launch});
  }
}

TEST_P(AllPairs, SeveralChannelsSomeWithoutAShare) {
  for (int n : {2, 3}) {
    for (Function function : kFunctions) {
      Launch launch;
      for (uint64_t count : {1, 7, 100, 2001}) launch.push_back({count, 3, false, 0, 0, function, 1});
      run<proto::Sum<float>>(n, GetParam(), {launch}, {.first_channel = 3});
    }
  }
}

TEST_P(AllPairs, ManyChunks) {
  for (Function function : kFunctions) {
    Launch launch;
    for (uint64_t count : {1000, 2003}) {
      launch.push_back({count, 2, false, 0, 0, function, 1, 128});
      launch.push_back({count, 1, true, 0, 0, function, 2, 256});
    }
    run<proto::Sum<float>>(3, GetParam(), {launch, launch});
  }
}

TEST_P(AllPairs, FullAreas) {
  constexpr uint64_t kBytes = proto::kLineAreaBytes;
  const Launch launch = {{3 * kBytes / sizeof(float) + 5, 2, true},
                         {kBytes / sizeof(float), 1, false, 0, 0, Function::reduce_scatter},
                         {kBytes, 1, false, 0, 0, Function::all_to_all}};
  run<proto::Sum<float>>(2, GetParam(), {launch});
}

// Ranks that have no data for each other are heard of all the same, and lagging warps still read one step while others
// are further on.
TEST_P(AllPairs, HundredsOfOperationsOfAllFunctions) {
  std::mt19937 random(8);
  for (int n : {2, 3, 5}) {
    std::vector<Launch> launches(24);
    for (Launch& launch : launches) {
      launch.resize(1 + random() % (random() % 2 == 0 ? 4 : kMostItems / 2));
      for (Op& op : launch) {
        op.function = kFunctions[random() % std::size(kFunctions)];
        op.root = random() % static_cast<size_t>(n);
        op.count = random() % 3 == 0 ? 100 + random() % 900 : 1 + random() % 9;
        op.n_channels = static_cast<int>(1 + random() % 3);
        op.in_place = random() % 2 == 0;
        op.chunk_bytes = random() % 2 == 0 ? 128 : 0;
      }
      launch.front().n_channels = 3;  // each block has something to do
    }
    run<proto::Sum<uint32_t>>(n, GetParam(), launches);
  }
}

// A block may have more threads than an operation wants, on some ranks only.
TEST_P(AllPairs, SomeThreadsOfABlock) {
  for (Function function : kFunctions) {
    Launch launch;
    for (int threads : {1, 2, 4}) launch.push_back({777, 2, false, 0, 0, function, 1, 128, threads});
    run<proto::Sum<float>>(3, 3 + GetParam(), {launch, launch});
  }
}

TEST_P(AllPairs, StepsWrap) {
  for (uint64_t before : {1, 2, 5}) {
    for (uint64_t wrap : {uint64_t{0}, uint64_t{1} << 32}) {
      const Launch launch = {{300, 2, false, 0, 0, Function::all_reduce, 0, 128}, {60, 2, true}};
      run<proto::Sum<float>>(3, GetParam(), {launch, launch}, {.first_step = wrap - before});
    }
  }
}

#if !defined(GC_FEW_TYPES)
TEST_P(AllPairs, HooksApplyOnce) {
  for (Function function : kReduces) {
    const Launch launch = {{99, 2, false, 0, 0, function, 1}, {5, 2, true, 0, 0, function, 1}};
    Options options;
    options.reduction.argument = 3;
    run<proto::Avg<float>>(3, GetParam(), {launch}, options);
    const float scalar = 1.25f;
    std::memcpy(&options.reduction.argument, &scalar, sizeof scalar);
    run<proto::PreMulSum<float>>(3, GetParam(), {launch}, options);
  }
}
#endif

TEST_P(AllPairs, EveryAlignment) {
  for (Function function : kFunctions) {
    Launch launch;
    for (size_t send : {0, 4, 1}) {
      for (size_t recv : {0, 3, 8}) launch.push_back({603, 2, false, send, recv, function, 2});
      launch.push_back({603, 2, true, send, 0, function, 2});
    }
    run<proto::Sum<float>>(3, GetParam(), {launch});
  }
}

#if !defined(GC_FEW_TYPES)
TEST_P(AllPairs, EveryElementSizeAndNoPadding) {
  const Launch launch = {{1, 2},
                         {130, 2},
                         {1111, 2},
                         {130, 2, false, 8, 0},
                         {130, 2, false, 1, 2},
                         {3, 2, true},
                         {333, 2, false, 0, 0, Function::reduce_scatter},
                         {333, 2, true, 0, 0, Function::reduce, 1}};
  test::run_every_element<test::AllPairs>(3, GetParam(), launch);
}
#endif

INSTANTIATE_TEST_SUITE_P(Threads, AllPairs, testing::Values(1, 3));

TEST(AllPairsFault, LatchEndsEveryWait) { test::expect_latch_ends_operations<test::AllPairs>(); }

}  // namespace
}  // namespace gpucoll
