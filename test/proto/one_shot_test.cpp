// One-shots through run_one_shots.
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
  test::run_operations<test::OneShots, Red>(n_ranks, threads, std::move(launches), options);
}

constexpr Function kFunctions[] = {
    Function::all_reduce, Function::reduce_scatter, Function::reduce,     Function::scan,   Function::exscan,
    Function::all_gather, Function::broadcast,      Function::all_to_all, Function::gather, Function::scatter};
constexpr Function kReduces[] = {Function::all_reduce, Function::reduce_scatter, Function::reduce, Function::scan,
                                 Function::exscan};
constexpr Function kMoves[] = {Function::all_gather, Function::broadcast, Function::all_to_all, Function::gather,
                               Function::scatter};

// ThreadSanitizer, which is slow, sees some numbers of ranks.
#if defined(__SANITIZE_THREAD__)
constexpr int kRanks[] = {1, 2, 5};
#else
constexpr int kRanks[] = {1, 2, 3, 4, 5, 8, 9, 16};
#endif

class OneShot : public testing::TestWithParam<int> {};  // the parameter: threads a block

TEST_P(OneShot, EveryNumberOfRanksAndOddCounts) {
  for (int n : kRanks) {
    for (Function function : kFunctions) {
      const size_t root = static_cast<size_t>(n) / 2;
      Launch launch;
      for (uint64_t count : {0, 1, 2, 3, 4, 5, 31, 127, 601}) {
        launch.push_back({count, 1, false, 0, 0, function, root});
        launch.push_back({count, 1, true, 0, 0, function, root});
      }
      run<proto::Sum<float>>(n, GetParam(), {launch});
    }
  }
}

TEST_P(OneShot, SeveralChannelsSomeWithoutAShare) {
  for (int n : {2, 3, 4}) {
    for (Function function : kFunctions) {
      Launch launch;
      for (uint64_t count : {1, 7, 100, 2001}) launch.push_back({count, 3, false, 0, 0, function, 1});
      run<proto::Sum<float>>(n, GetParam(), {launch});
    }
  }
  run<proto::Sum<float>>(2, GetParam(), {{{5000, proto::kMeshChannels}}});
}

TEST_P(OneShot, ChannelsNotFromTheFirstOn) {
  run<proto::Sum<float>>(3, GetParam(), {{{999, 2}, {5, 1}}}, {.first_channel = 3});
}

TEST_P(OneShot, ItemsInTheFifo) {
  run<proto::Sum<float>>(3, GetParam(), {Launch(31, {99, 2}), Launch(3, {7, 1})}, {.in_fifo = true});
}

#if !defined(GC_FEW_TYPES)
TEST_P(OneShot, HooksApplyOnce) {
  for (Function function : kReduces) {
    const Launch launch = {{99, 2, false, 0, 0, function, 1}, {5, 1, true, 0, 0, function, 1}};
    Options options;
    options.reduction.argument = 3;
    if (function != Function::scan && function != Function::exscan)
      run<proto::Avg<float>>(3, GetParam(), {launch}, options);
    const float scalar = 1.25f;
    std::memcpy(&options.reduction.argument, &scalar, sizeof scalar);
    run<proto::PreMulSum<float>>(3, GetParam(), {launch}, options);
  }
}
#endif

TEST_P(OneShot, AFullMesh) {
  constexpr uint64_t kMost = proto::kMeshChannelData / sizeof(float);
  run<proto::Sum<float>>(3, GetParam(), {{{kMost, 1, true}, {2 * kMost, 2}, {kMost, 1}, {2 * kMost, 2}}});
}

// Ranks that have no data for each other are heard of all the same.
TEST_P(OneShot, HundredsOfOperationsOfAllFunctions) {
  std::mt19937 random(8);
  for (int n : {2, 3, 5}) {
    std::vector<Launch> launches(24);
    for (Launch& launch : launches) {
      const bool all_move = random() % 2 == 0;
      launch.resize(random() % 2 == 0 ? 1 + random() % 4 : kMostItems / 2);
      for (Op& op : launch) {
        op.function = all_move ? kMoves[random() % 2] : kReduces[random() % 5];
        op.root = random() % static_cast<size_t>(n);
        op.count = random() % 3 == 0 ? 100 + random() % 200 : 1 + random() % 9;
        op.n_channels = static_cast<int>(1 + random() % 3);
        op.in_place = random() % 2 == 0;
      }
    }
    run<proto::Sum<uint32_t>>(n, GetParam(), launches);
  }
}

// Lagging blocks and threads still read one operation while others are two further on.
TEST_P(OneShot, HundredsOfOperationsOfAllSizes) {
  std::mt19937 random(7);
  for (int n : {2, 3, 5}) {
    std::vector<Launch> launches(12);
    for (Launch& launch : launches) {
      launch.resize(random() % 2 == 0 ? 1 + random() % 4 : kMostItems);
      for (Op& op : launch) {
        op.count = random() % 3 == 0 ? 200 + random() % 300 : 1 + random() % 9;
        op.n_channels = static_cast<int>(1 + random() % 3);
        op.in_place = random() % 2 == 0;
      }
    }
    run<proto::Sum<uint32_t>>(n, GetParam(), launches);
  }
}

TEST_P(OneShot, FlagsWrap) {
  EXPECT_EQ(proto::next_mesh_flag(0), 1u);
  EXPECT_EQ(proto::next_mesh_flag(0xfffffffe), 0xffffffffu);
  EXPECT_EQ(proto::next_mesh_flag(0xffffffff), 2u) << "parities alternate, and no operation has flag 0";
  for (uint32_t before : {1, 2, 3, 10}) {
    run<proto::Sum<float>>(3, GetParam(), {Launch(24, {60, 2}), Launch(5, {1}), Launch(5, {60, 2})},
                           {.last_flag = uint32_t{0} - before});
  }
}

// Launches of a graph among others, with one block and with several.
TEST_P(OneShot, FlagsGoOnWhereNobodyIsTold) {
  const Launch narrow = {{60, 1}, {3, 1}}, wide = {{600, 3}, {5, 1}, {60, 2}};
  run<proto::Sum<float>>(3, GetParam(), {narrow, wide, wide, narrow, narrow, narrow, wide}, {.captured = true});
}

TEST_P(OneShot, EveryAlignment) {
  for (Function function : kFunctions) {
    Launch launch;
    for (size_t send : {0, 1, 2, 4, 8, 12}) {
      for (size_t recv : {0, 3, 4, 8}) launch.push_back({203, 2, false, send, recv, function, 2});
      launch.push_back({203, 2, true, send, 0, function, 2});
    }
    run<proto::Sum<float>>(3, GetParam(), {launch});
  }
}

#if !defined(GC_FEW_TYPES)
TEST_P(OneShot, EveryElementSizeAndNoPadding) {
  const Launch launch = {{1, 2}, {130, 2}, {1111, 2}, {130, 2, false, 8, 0}, {130, 2, false, 1, 2}, {3, 1, true}};
  test::run_every_element<test::OneShots>(3, GetParam(), launch);
}
#endif

INSTANTIATE_TEST_SUITE_P(Threads, OneShot, testing::Values(1, 3));

TEST(OneShotFault, LatchEndsEveryWait) { test::expect_latch_ends_operations<test::OneShots>(); }

TEST(Ll, APackHasArrivedWhenAllItsWordsHave) {
  for (int late = 0; late < 4; ++late) {
    proto::LlPack pack{};
    for (int word = 0; word < 4; ++word) {
      uint64_t& to = word % 2 == 0 ? pack.line[word / 2].first : pack.line[word / 2].second;
      to = uint64_t{word == late ? 6u : 7u} << 32 | static_cast<uint32_t>(100 + word);
    }
    EXPECT_FALSE(pack.arrived(7)) << "word " << late;
    (late % 2 == 0 ? pack.line[late / 2].first : pack.line[late / 2].second) += uint64_t{1} << 32;
    ASSERT_TRUE(pack.arrived(7));
    for (uint32_t word = 0; word < 4; ++word) EXPECT_EQ(pack.data().word[word], 100 + word);
  }
}

}  // namespace
}  // namespace gpucoll
