// Choices of algorithm and protocol: limits, parameters, tuning tables, and how near predictions are to measurements.
#include "core/plan/tuner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>
#include <random>
#include <string>

#include "base/params.h"
#include "core/plan/tuning_file.h"

namespace {
std::atomic<long> allocations{0};
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(bytes);
}
void* operator new(size_t bytes) {
  if (void* memory = operator new(bytes, std::nothrow)) return memory;
  throw std::bad_alloc();
}
// Not inlined: the compiler would see memory freed that its own operator new has given.
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace gpucoll::core {
namespace {

constexpr Function kCollectives[] = {Function::broadcast, Function::all_gather,     Function::all_reduce,
                                     Function::reduce,    Function::reduce_scatter, Function::scan,
                                     Function::exscan};

CommProperties gpus(int n_ranks) {
  CommProperties shape;
  shape.n_ranks = n_ranks;
  shape.n_channels = shape.n_pair_channels = 32;
  shape.threads = 384;
  shape.warp = 32;
  shape.mesh = shape.line_mesh = shape.ll128 = true;
  shape.one_shot_bytes = 2 << 20;
  shape.all_pairs_bytes = 1 << 20;
  return shape;
}
CommProperties emulated(int n_ranks) {
  CommProperties shape;
  shape.n_ranks = n_ranks;
  shape.n_channels = 2;
  shape.n_pair_channels = 4;
  shape.emulated = shape.mesh = shape.line_mesh = shape.ll128 = true;
  shape.one_shot_bytes = 16 << 10;
  shape.all_pairs_bytes = 1 << 20;
  return shape;
}

// Those that reduce, from the size on that the parameter says, unless they are small enough for one hop.
TEST(Tuner, ReducesOnAllBuffersFromSomeSizeOn) {
  CommProperties shape = gpus(4);
  EXPECT_FALSE(choose(Function::all_reduce, 4 << 20, shape, true).zero_copy) << "turned off";
  shape.zero_copy_bytes = 1 << 20;
  for (Function function : kCollectives) {
    const bool may = function == Function::all_reduce || function == Function::reduce;
    EXPECT_EQ(choose(function, 1 << 20, shape, true).zero_copy, may || function == Function::reduce_scatter);
    EXPECT_FALSE(choose(function, (1 << 18) - 4, shape, true).zero_copy);
  }
  EXPECT_TRUE(choose(Function::reduce_scatter, 1 << 18, shape, false).zero_copy) << "of the whole buffer";
  EXPECT_FALSE(choose(Function::reduce_scatter, (1 << 18) + 4, shape, false).zero_copy) << "no whole packs";
  EXPECT_EQ(choose(Function::all_reduce, 1 << 20, shape, true).channels, 32);
  shape.mesh = false;
  EXPECT_FALSE(choose(Function::all_reduce, 4 << 20, shape, true).zero_copy);
}

// The ring has more bandwidth than zero-copy from some size on, but for a reduce_scatter, and a reduce between two.
bool ring_is_ahead(Function function, uint64_t bytes, const CommProperties& shape) {
  constexpr uint64_t kMiB = 1 << 20;
  if (shape.emulated) return false;
  if (function == Function::all_reduce) return bytes > 96 * kMiB / static_cast<uint64_t>(shape.n_ranks);
  return function == Function::reduce && shape.n_ranks > 2 && bytes > 96 * kMiB;
}

// When buffers are known is a matter of time: the bits may not be.
TEST(Tuner, GoesOnWithTheSameBitsWhereBuffersAreNotKnown) {
  for (CommProperties shape : {gpus(2), gpus(3), gpus(4), gpus(8), emulated(2), emulated(3), emulated(8)}) {
    shape.zero_copy_bytes = 1 << 20;
    for (uint64_t bytes = 1 << 18; bytes <= uint64_t{1} << 30; bytes *= 2) {
      for (Function function : {Function::all_reduce, Function::reduce, Function::reduce_scatter}) {
        const Choice choice = choose(function, bytes, shape, true);
        const uint64_t all =
            function == Function::reduce_scatter ? bytes * static_cast<uint64_t>(shape.n_ranks) : bytes;
        const bool wanted = all >= shape.zero_copy_bytes && choice.algorithm != Algorithm::one_shot &&
                            !ring_is_ahead(function, bytes, shape);
        EXPECT_EQ(choice.zero_copy, wanted) << shape.n_ranks << " " << bytes;
        if (ring_is_ahead(function, bytes, shape)) {
          EXPECT_EQ(choice.algorithm, Algorithm::ring) << shape.n_ranks << " " << bytes;
          EXPECT_EQ(choice.protocol, Protocol::simple) << shape.n_ranks << " " << bytes;
        }
        EXPECT_FALSE(choice.zero_copy && choice.algorithm == Algorithm::tree) << shape.n_ranks << " " << bytes;
      }
    }
  }
}

CommProperties random_shape(std::mt19937& random) {
  CommProperties shape = random() % 2 ? gpus(1) : emulated(1);
  shape.n_ranks = 1 + static_cast<int>(random() % 40);
  shape.n_channels = 1 + static_cast<int>(random() % 32);
  shape.n_pair_channels = 1 << random() % 6;
  shape.most_blocks = 1 + static_cast<int>(random() % 32);
  shape.threads = shape.warp * (1 + static_cast<int>(random() % 16));
  shape.mesh = random() % 2;
  shape.ll128 = random() % 2;
  shape.capturing = random() % 4 == 0;
  shape.zero_copy_bytes = shape.n_ranks > 8 || random() % 2 ? 0 : 1 << random() % 20;
  return shape;
}
uint64_t random_bytes(std::mt19937& random) { return (uint64_t{1} << random() % 34) + random() % 1000 - random() % 2; }

bool same(const Choice& a, const Choice& b) {
  return a.algorithm == b.algorithm && a.protocol == b.protocol && a.channels == b.channels && a.threads == b.threads &&
         a.chunk_bytes == b.chunk_bytes && a.us == b.us && a.zero_copy == b.zero_copy;
}

class Forced {
 public:
  Forced(const char* name, const char* value) : name_(name) { set_param(name, value, "test").ignore(); }
  ~Forced() { set_param(name_, "auto", "test").ignore(); }

 private:
  const char* name_;
};

// Mostly nothing is forced.
constexpr const char* kAlgorithms[] = {"auto", "ring", "tree", "one_shot", "all_pairs", "zero_copy", "auto", "auto"};
constexpr const char* kProtocols[] = {"auto", "simple", "ll", "ll128", "auto", "auto", "auto", "auto"};

TEST(Tuner, ChoosesTheFastestOfCandidatesWithinTheShape) {
  std::mt19937 random(1);
  for (int round = 0; round < 20000; ++round) {
    const CommProperties shape = random_shape(random);
    const Function function = kCollectives[random() % 5];
    const uint64_t bytes = random_bytes(random);
    const Forced algorithm("algorithm", kAlgorithms[random() % 8]), protocol("protocol", kProtocols[random() % 8]);
    const bool has_one_shot = random() % 2;
    const auto list = candidates(function, bytes, shape, has_one_shot);
    ASSERT_FALSE(list.empty());
    EXPECT_TRUE(same(list.front(), choose(function, bytes, shape, has_one_shot)));
    for (size_t i = 0; i < list.size(); ++i) {
      const Choice& c = list[i];
      EXPECT_EQ(obstacle(function, c.algorithm, c.protocol, bytes, shape, has_one_shot), nullptr);
      EXPECT_GE(c.channels, 1);
      EXPECT_LE(c.channels, c.algorithm == Algorithm::one_shot ? std::min(shape.most_blocks, 16) : shape.n_channels);
      EXPECT_TRUE(c.threads >= shape.warp && c.threads <= shape.threads && c.threads % shape.warp == 0);
      EXPECT_EQ(c.chunk_bytes % 128, 0u);
      EXPECT_GT(c.us, 0);
      EXPECT_FALSE(c.zero_copy && c.algorithm == Algorithm::tree);
      if (i) {
        EXPECT_LE(list[i - 1].us, c.us);
      }
    }
  }
}

TEST(Tuner, EveryPathThatIsSupportedIsACandidateSomewhere) {
  for (Function function : kCollectives)
    for (int a = 0; a < proto::kAlgorithms; ++a)
      for (int p = 0; p < proto::kProtocols; ++p) {
        const auto algorithm = static_cast<Algorithm>(a);
        const auto protocol = static_cast<Protocol>(p);
        const auto list = candidates(function, 1024, gpus(4), true);
        const bool there = std::any_of(list.begin(), list.end(), [&](const Choice& c) {
          return c.algorithm == algorithm && c.protocol == protocol;
        });
        EXPECT_EQ(there, supported(function, algorithm, protocol))
            << name(function) << " " << name(algorithm) << " " << name(protocol);
      }
}

TEST(Tuner, SendsMediumCollectivesToAllPairs) {
  const auto all_pairs = [](Function function, uint64_t bytes, const CommProperties& shape) {
    return obstacle(function, Algorithm::all_pairs, Protocol::ll128, bytes, shape, true) == nullptr;
  };
  for (int n : {2, 4, 8}) {
    CommProperties shape = gpus(n);
    const Choice medium = choose(Function::all_reduce, 1 << 20, shape, true);
    EXPECT_EQ(medium.algorithm, Algorithm::all_pairs);
    EXPECT_EQ(medium.channels, std::min(128 / n, 32));
    const auto ranks = static_cast<uint64_t>(n);
    EXPECT_TRUE(all_pairs(Function::all_reduce, ranks << 20, shape)) << "a rank's part counts";
    EXPECT_FALSE(all_pairs(Function::all_reduce, (ranks << 20) + 4, shape));
    EXPECT_TRUE(all_pairs(Function::all_gather, 1 << 20, shape));
    EXPECT_FALSE(all_pairs(Function::all_gather, (1 << 20) + 4, shape));
    EXPECT_FALSE(all_pairs(Function::scan, 1 << 20, shape));
    shape.line_mesh = false;
    EXPECT_FALSE(all_pairs(Function::all_reduce, 1 << 20, shape));
  }
}

TEST(Tuner, SendsSmallAllreducesToAllAndLargeOnesRoundTheRing) {
  for (int n : {2, 4, 8}) {
    const Choice small = choose(Function::all_reduce, 8, gpus(n), true);
    EXPECT_EQ(small.algorithm, Algorithm::one_shot);
    EXPECT_EQ(small.channels, 1);
    EXPECT_EQ(small.threads, 32);
    const Choice large = choose(Function::all_reduce, 1 << 28, gpus(n), true);
    EXPECT_EQ(large.algorithm, Algorithm::ring);
    EXPECT_EQ(large.protocol, Protocol::simple);
    EXPECT_EQ(large.channels, 32);
    EXPECT_EQ(large.threads, 384);
  }
}

TEST(Tuner, KnowsWhatStandsInTheWay) {
  CommProperties shape = gpus(4);
  auto one_shot = [&](uint64_t bytes, bool has) {
    return obstacle(Function::all_reduce, Algorithm::one_shot, Protocol::ll, bytes, shape, has) == nullptr;
  };
  EXPECT_TRUE(one_shot(512 << 10, true));
  EXPECT_FALSE(one_shot((512 << 10) + 4, true));
  EXPECT_FALSE(one_shot(8, false));
  shape.most_blocks = 2;  // with 64 KiB of lines each
  EXPECT_TRUE(one_shot(100 << 10, true));
  EXPECT_FALSE(one_shot(128 << 10, true));
  shape.most_blocks = 32;
  shape.capturing = true;
  EXPECT_TRUE(one_shot(8, true));
  shape = gpus(4);
  shape.mesh = false;
  EXPECT_FALSE(one_shot(8, true));
  EXPECT_EQ(obstacle(Function::broadcast, Algorithm::one_shot, Protocol::ll, 8, gpus(4), true), nullptr);
  EXPECT_NE(obstacle(Function::broadcast, Algorithm::one_shot, Protocol::ll128, 8, gpus(4), true), nullptr);
  shape = gpus(4);
  shape.ll128 = false;
  EXPECT_NE(obstacle(Function::broadcast, Algorithm::ring, Protocol::ll128, 8, shape, true), nullptr);
}

TEST(Tuner, ObeysTheParametersWhereItCan) {
  {
    Forced algorithm("algorithm", "ring");
    for (const Choice& c : candidates(Function::all_reduce, 8, gpus(4), true)) EXPECT_EQ(c.algorithm, Algorithm::ring);
    Forced protocol("protocol", "simple");
    const auto list = candidates(Function::all_reduce, 8, gpus(4), true);
    ASSERT_EQ(list.size(), 1u);
    EXPECT_EQ(list[0].protocol, Protocol::simple);
    EXPECT_TRUE(same(list[0], choose(Function::all_reduce, 8, gpus(4), true)));
  }
  Forced algorithm("algorithm", "one_shot");
  EXPECT_EQ(choose(Function::all_reduce, 8, gpus(4), true).algorithm, Algorithm::one_shot);
  // It cannot: as if nothing had been said.
  EXPECT_EQ(choose(Function::all_reduce, 1 << 28, gpus(4), true).algorithm, Algorithm::ring);
  EXPECT_EQ(candidates(Function::all_gather, 8, gpus(4), false).size(),
            static_cast<size_t>(supported(Function::all_gather, Algorithm::ring, Protocol::simple) +
                                supported(Function::all_gather, Algorithm::ring, Protocol::ll) +
                                supported(Function::all_gather, Algorithm::ring, Protocol::ll128) +
                                supported(Function::all_gather, Algorithm::all_pairs, Protocol::ll128)));
}

// A tree makes room for what zero-copy may go on with, but not for another protocol than the one asked for: a ring is
// such only by Simple.
TEST(Tuner, ObeysTheProtocolWhereZeroCopyIsWanted) {
  CommProperties shape = gpus(4);
  shape.zero_copy_bytes = 1 << 20;
  for (const char* name : {"simple", "ll", "ll128"}) {
    Forced protocol("protocol", name);
    for (Function function : {Function::all_reduce, Function::reduce, Function::reduce_scatter}) {
      const uint64_t bytes = function == Function::reduce_scatter ? 1 << 20 : 4 << 20;
      for (const Choice& c : candidates(function, bytes, shape, true)) {
        EXPECT_STREQ(core::name(c.protocol), name) << core::name(function);
        EXPECT_EQ(c.zero_copy, c.protocol == Protocol::simple || c.algorithm == Algorithm::all_pairs)
            << core::name(function) << " by " << name;
        EXPECT_FALSE(c.zero_copy && c.algorithm == Algorithm::tree) << core::name(function) << " by " << name;
      }
    }
  }
}

// docs/measurements: microseconds of an allreduce on H200.
TEST(Tuner, PredictsWhatWasMeasured) {
  struct Measured {
    int ranks;
    Algorithm algorithm;
    uint64_t bytes;
    double us;
  };
  constexpr Algorithm kRing = Algorithm::ring, kOneShot = Algorithm::one_shot, kAllPairs = Algorithm::all_pairs;
  constexpr uint64_t kMi = 1 << 20;
  for (const Measured& m :
       {Measured{2, kOneShot, 8, 14.7}, Measured{4, kOneShot, 8, 15.2}, Measured{4, kOneShot, 131072, 19.7},
        Measured{4, kOneShot, 524288, 30.7}, Measured{2, kOneShot, 524288, 22.8}, Measured{2, kRing, 1024, 23.7},
        Measured{4, kRing, 1024, 42.7}, Measured{2, kRing, 8 * kMi, 49.9}, Measured{4, kRing, 2 * kMi, 44.5},
        Measured{4, kRing, 8 * kMi, 74.5}, Measured{4, kRing, 32 * kMi, 194.8}, Measured{4, kRing, 512 * kMi, 2480.9},
        Measured{2, kRing, 512 * kMi, 1733.1}, Measured{4, kAllPairs, kMi, 31.1}, Measured{4, kAllPairs, 4 * kMi, 54.7},
        Measured{2, kAllPairs, 2 * kMi, 33.3}}) {
    const Protocol protocol = m.algorithm == kRing       ? Protocol::simple
                              : m.algorithm == kAllPairs ? Protocol::ll128
                                                         : Protocol::ll;
    for (const Choice& c : candidates(Function::all_reduce, m.bytes, gpus(m.ranks), true))
      if (c.algorithm == m.algorithm && c.protocol == protocol) {
        EXPECT_NEAR(c.us / m.us, 1, 0.2) << m.ranks << " ranks, " << m.bytes << " bytes";
      }
  }
}

TEST(Tuner, PrefersMeasuredTimes) {
  TuningTable table;
  CommProperties shape = gpus(4);
  const Choice without = choose(Function::all_reduce, 65536, shape, true);
  ASSERT_EQ(without.algorithm, Algorithm::one_shot);
  const auto f = static_cast<int>(Function::all_reduce);
  table.points[f][static_cast<int>(Algorithm::one_shot)][static_cast<int>(Protocol::ll)] = {{8, 500}, {1 << 20, 600}};
  shape.table = &table;
  const Choice with = choose(Function::all_reduce, 65536, shape, true);
  EXPECT_NE(with.algorithm, Algorithm::one_shot);
  table.points[f][static_cast<int>(Algorithm::ring)][static_cast<int>(Protocol::simple)] = {{8, 1}, {1 << 20, 1}};
  EXPECT_EQ(choose(Function::all_reduce, 65536, shape, true).us, 1);
  EXPECT_EQ(choose(Function::all_reduce, 65536, shape, true).protocol, Protocol::simple);
}

TEST(Tuner, PrefersMeasuredTimesOfMessages) {
  TuningTable table;
  auto& messages = table.points[static_cast<int>(Function::send_recv)][static_cast<int>(Algorithm::pairwise)];
  CommProperties shape = gpus(2);
  ASSERT_EQ(choose_pair(64, shape).protocol, Protocol::ll);
  ASSERT_EQ(choose_pair(1 << 20, shape).protocol, Protocol::simple);
  shape.table = &table;
  messages[static_cast<int>(Protocol::ll)] = {{8, 20}, {1 << 20, 30}};
  EXPECT_EQ(choose_pair(1 << 20, shape).protocol, Protocol::simple) << "there is nothing to compare with";
  messages[static_cast<int>(Protocol::simple)] = {{8, 10}, {1 << 20, 40}};
  EXPECT_EQ(choose_pair(64, shape).protocol, Protocol::simple);
  EXPECT_EQ(choose_pair(1 << 20, shape).protocol, Protocol::ll);
  Forced protocol("protocol", "ll");
  EXPECT_EQ(choose_pair(64, shape).protocol, Protocol::ll);
}

TEST(Tuner, CutsMessagesInPowersOfTwo) {
  std::mt19937 random(2);
  for (int round = 0; round < 20000; ++round) {
    const CommProperties shape = random_shape(random);
    const uint64_t bytes = random_bytes(random);
    const PairChoice choice = choose_pair(bytes, shape);
    EXPECT_EQ(choice.parts & (choice.parts - 1), 0);
    EXPECT_TRUE(choice.parts >= 1 && choice.parts <= shape.n_pair_channels);
    EXPECT_TRUE(choice.protocol == Protocol::ll || choice.protocol == Protocol::simple);
    EXPECT_TRUE(choice.threads >= 1 && choice.threads <= shape.threads);
  }
  EXPECT_EQ(choose_pair(0, gpus(4)).parts, 1);
  EXPECT_EQ(choose_pair(0, gpus(4)).protocol, Protocol::ll);
  EXPECT_EQ(choose_pair(1 << 30, gpus(2)).parts, 32);
  EXPECT_EQ(choose_pair(1 << 30, gpus(2)).protocol, Protocol::simple);
  EXPECT_EQ(choose_pair(1 << 30, gpus(8)).parts, 8);   // 7 peers
  EXPECT_EQ(choose_pair(1 << 30, gpus(65)).parts, 1);  // 64 peers fill 32 channels twice
  Forced protocol("protocol", "simple");
  EXPECT_EQ(choose_pair(0, gpus(4)).protocol, Protocol::simple);
  Forced other("protocol", "ll128");  // not for messages
  EXPECT_EQ(choose_pair(0, gpus(4)).protocol, Protocol::ll);
}

TEST(Tuner, ChoosesWithoutAllocating) {
  const CommProperties shape = gpus(8);
  choose(Function::all_reduce, 8, shape, true);  // reads the parameters
  const long before = allocations.load();
  constexpr int kTimes = 100000;
  double sum = 0;
  for (int i = 0; i < kTimes; ++i)
    sum += choose(Function::all_reduce, static_cast<uint64_t>(i), shape, true).us +
           choose_pair(static_cast<uint64_t>(i), shape).parts;
  EXPECT_EQ(allocations.load(), before);
  EXPECT_GT(sum, 0);
}

}  // namespace
}  // namespace gpucoll::core
