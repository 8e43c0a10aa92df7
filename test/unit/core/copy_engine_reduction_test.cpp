// Large reductions by copy engines as they are planned: all ranks played in host memory, copies and kernels at any time
// that their order allows, drawn at random. Whatever is overwritten too early shows in the result.
#include "core/plan/copy_engine_reduction.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <iterator>
#include <random>
#include <utility>

#include "base/params.h"
#include "proto/format/local_reduction.h"

namespace gpucoll::core {
namespace {

using Random = std::mt19937;

const gpu::Kernel kReduce = {"reduce", nullptr, nullptr};

CommProperties shape_of(int n, uint64_t piece) {
  CommProperties shape;
  shape.n_ranks = n;
  shape.threads = 512;
  shape.emulated = true;
  shape.copies.reductions = 1;
  shape.copies.piece = copy_piece_bytes(piece);
  return shape;
}

struct Data {
  Function function;
  uint64_t count;
  bool in_place;
  int root;
};

// Numbers whose sums tell who has contributed, and to which element; exact in any order.
int64_t operand(const Data& data, int rank, uint64_t i) {
  return static_cast<int64_t>(i * 31 + data.count) << 16 | int64_t{1} << rank;
}

// One rank and its memory.
struct Rank {
  std::vector<std::vector<int64_t>> in, out;  // by task
  std::vector<uint8_t> landing;
  TaskQueue queue;
  CopyReductionPlan plan;
  uint32_t step = 0;
  size_t sent = 0;         // of plan.sends
  bool half_sent = false;  // of the next one
  size_t told = 0;         // of plan.consumed
  uint64_t consumed = 0;   // rounds

  void add(const Data& data, int rank, int n) {
    const uint64_t all = data.function == Function::reduce_scatter ? data.count * static_cast<uint64_t>(n) : data.count;
    in.emplace_back(all);
    for (uint64_t i = 0; i < all; ++i) in.back()[i] = operand(data, rank, i);
    out.emplace_back(data.in_place ? 0 : data.count);
    CollectiveTask task{};
    task.function = data.function;
    task.kernels.plan = task.kernels.local = &kReduce;
    task.send = in.back().data();
    const uint64_t own = data.function == Function::reduce_scatter ? static_cast<uint64_t>(rank) * data.count : 0;
    task.recv = data.in_place ? in.back().data() + own : out.back().data();
    if (data.function == Function::reduce && rank != data.root) task.recv = nullptr;
    task.count = data.count;
    task.element_bytes = sizeof(int64_t);
    task.root = static_cast<uint32_t>(data.root);
    queue.add(task);
  }
};

class Play {
 public:
  Play(int n, const CommProperties& shape, const std::vector<Data>& tasks, uint32_t seed)
      : n_(n), shape_(shape), tasks_(tasks), random_(seed), ranks_(static_cast<size_t>(n)) {
    const uint64_t first_round = random_() % 9;
    for (int r = 0; r < n; ++r) {
      Rank& rank = this->rank(r);
      for (const Data& data : tasks) rank.add(data, r, n);
      rank.landing.resize(landing_bytes(shape));
      rank.plan = plan_copy_reduction(rank.queue, r, shape, rank.landing.data(), first_round);
      rank.consumed = first_round;
    }
  }

  // Until all is done, or nothing can go on.
  void run() {
    for (int idle = 0; idle < 2000; ++idle)
      if (act()) idle = 0;
    for (const Rank& rank : ranks_) {
      ASSERT_EQ(rank.sent, rank.plan.sends.size()) << "stands still";
      ASSERT_EQ(rank.step, rank.plan.steps.size()) << "stands still";
      ASSERT_EQ(rank.plan.rounds, ranks_[0].plan.rounds);
    }
    for (int r = 0; r < n_; ++r)
      for (size_t t = 0; t < tasks_.size(); ++t) check(r, t);
  }

 private:
  Rank& rank(int r) { return ranks_[static_cast<size_t>(r)]; }

  bool act() {
    const int r = static_cast<int>(random_() % static_cast<unsigned>(n_));
    const bool acted = random_() % 2 ? take_step(r) : send_half(r);
    tell(rank(r));
    return acted;
  }

  bool has_sent(const Rank& from, uint64_t round) const {
    for (size_t i = 0; i < from.sent; ++i)
      if (from.plan.sends[i].round == round) return true;
    return false;
  }

  static void tell(Rank& rank) {
    for (; rank.told < rank.plan.consumed.size(); ++rank.told) {
      const CopyReductionPlan::Consumed& next = rank.plan.consumed[rank.told];
      if (next.steps > rank.step || next.sends > rank.sent) return;
      ASSERT_GT(next.rounds, rank.consumed);
      rank.consumed = next.rounds;
    }
  }

  bool take_step(int r) {
    Rank& rank = this->rank(r);
    if (rank.step == rank.plan.steps.size()) return false;
    const CopyReductionPlan::Step& step = rank.plan.steps[rank.step];
    if (step.kernel && !has_sent(this->rank((r + n_ - 1) % n_), step.round)) return false;
    PlannedLaunch launch;
    plan_launch(step, shape_, false, &launch);
    EXPECT_EQ(launch.stage, Stage::step);
    EXPECT_EQ(launch.kernel, step.kernel);
    if (launch.kernel) {
      EXPECT_EQ(launch.threads, shape_.threads);
      EXPECT_GT(launch.blocks(), 0);
      EXPECT_EQ(proto::local_reduction(launch.plan).waited, 1);
      reduce(proto::local_reduction(launch.plan));
    }
    ++rank.step;
    return true;
  }

  // In order; it reads and writes one half when it starts, and the other when it ends.
  bool send_half(int r) {
    Rank& rank = this->rank(r);
    if (rank.sent == rank.plan.sends_before(rank.step)) return false;
    const CopyReductionPlan::Send& send = rank.plan.sends[rank.sent];
    Rank& to = this->rank((r + 1) % n_);
    if (to.consumed < rank.plan.used_before(send.round)) return false;
    uint8_t* const place = to.landing.data() + rank.plan.landing_offset(send.round);
    EXPECT_LE(place + send.bytes, to.landing.data() + to.landing.size());
    const uint64_t half = send.bytes / 2, at = rank.half_sent ? half : 0;
    std::memcpy(place + at, send.from + at, rank.half_sent ? send.bytes - half : half);
    rank.sent += rank.half_sent;
    rank.half_sent = !rank.half_sent;
    return true;
  }

  // The operands come in the order of the ring, so the first of them has contributions as soon as there are two ranks.
  static int contributions(int64_t x) { return std::popcount(static_cast<uint64_t>(x) & 0xffff); }

  void reduce(const proto::LocalReduction& r) {
    if (r.n_ranks == 2) {
      int64_t came;
      std::memcpy(&came, r.others, sizeof came);
      EXPECT_EQ(r.reduced != 0, contributions(came) > 1);
      EXPECT_EQ(r.partial != 0, contributions(came) < n_ - 1);
    }
    for (uint64_t i = 0; i < r.count; ++i) {
      int64_t sum = 0;
      for (uint32_t k = 0; k < r.n_ranks; ++k) {
        const uint8_t* from = k == r.rank ? r.own : r.others + (k < r.rank ? k : k - 1) * r.stride;
        int64_t x;
        std::memcpy(&x, from + i * sizeof x, sizeof x);
        sum += x;
      }
      std::memcpy(r.result + i * sizeof sum, &sum, sizeof sum);
    }
  }

  void check(int r, size_t t) {
    const Data& data = tasks_[t];
    if (data.function == Function::reduce && r != data.root) {
      for (uint64_t i = 0; i < data.count; ++i) ASSERT_EQ(rank(r).in[t][i], operand(data, r, i)) << "changed the input";
      return;
    }
    const uint64_t first = data.function == Function::reduce_scatter ? static_cast<uint64_t>(r) * data.count : 0;
    for (uint64_t i = 0; i < data.count; ++i) {
      int64_t want = 0;
      for (int k = 0; k < n_; ++k) want += operand(data, k, first + i);
      const int64_t is = data.in_place ? rank(r).in[t][i + (data.function == Function::reduce_scatter ? first : 0)]
                                       : rank(r).out[t][i];
      ASSERT_EQ(is, want) << "element " << i << " on rank " << r;
    }
  }

  const int n_;
  const CommProperties shape_;
  const std::vector<Data> tasks_;
  Random random_;
  std::vector<Rank> ranks_;
};

TEST(CopyReductionPlan, AreRightInAnyOrderOfEvents) {
  Random random(5);
  for (uint32_t round = 0; round < 150; ++round) {
    constexpr int kRanks[] = {2, 3, 4, 5, 7, 9, 16};
    const int n = kRanks[random() % std::size(kRanks)];
    std::vector<Data> tasks(1 + random() % 3);
    for (Data& data : tasks) {
      constexpr Function kFunctions[] = {Function::all_reduce, Function::reduce_scatter, Function::reduce};
      data = {kFunctions[random() % (n > 2 ? 2 : 3)], 1 + random() % (random() % 4 ? 500 : 5), random() % 2 == 0,
              static_cast<int>(random() % static_cast<unsigned>(n))};
    }
    SCOPED_TRACE(testing::Message() << "round " << round << ", " << n << " ranks");
    const CommProperties shape = shape_of(n, random() % 2 ? 128 : 2048);
    Play play(n, shape, tasks, round);
    play.run();
    if (HasFatalFailure()) return;
  }
}

TaskQueue queue_of(Function function, uint64_t count) {
  TaskQueue queue;
  CollectiveTask task{};
  task.function = function;
  task.kernels.plan = task.kernels.local = &kReduce;
  task.element_bytes = 4;
  task.count = count;
  task.root = 1;
  queue.add(task);
  return queue;
}

// No rank sends more than it must.
TEST(CopyReductionPlan, MoveNoMoreThanTheyMust) {
  constexpr uint64_t bytes = 24 * 128 * 100, kRounding = 1000;
  for (int n : {2, 3, 4, 5})
    for (Function function : {Function::all_reduce, Function::reduce_scatter, Function::reduce}) {
      if (function == Function::reduce && n > 2) continue;  // it goes by kernels
      const auto others = static_cast<uint64_t>(n - 1), all = static_cast<uint64_t>(n);
      const uint64_t parts = function == Function::reduce_scatter ? all : 1;
      const uint64_t least = function == Function::all_reduce ? 2 * bytes * others / all
                             : function == Function::reduce   ? bytes
                                                              : bytes * others / all;
      for (int rank = 0; rank < n; ++rank) {
        uint64_t sent = 0;
        for (const auto& send :
             plan_copy_reduction(queue_of(function, bytes / 4 / parts), rank, shape_of(n, 1280), nullptr, 0).sends)
          sent += send.bytes;
        if (function == Function::reduce && rank == 1) {
          EXPECT_EQ(sent, 0u) << "the root";
        } else {
          EXPECT_GE(sent, least) << n << " ranks";
          EXPECT_LE(sent, least + kRounding) << n << " ranks";
        }
      }
    }
}

constexpr uint64_t kMiB = uint64_t{1} << 20;

// A copy that waits for the reduction of what has just come would leave its link idle meanwhile.
TEST(CopyReductionPlan, SendAnotherPieceWhileOneIsReduced) {
  for (Function function : {Function::all_reduce, Function::reduce_scatter})
    for (uint64_t chunk : {16 * kMiB, 64 * kMiB, 256 * kMiB, 1024 * kMiB}) {
      const uint64_t count = chunk / 4 * (function == Function::all_reduce ? 4 : 1);
      const CopyReductionPlan made =
          plan_copy_reduction(queue_of(function, count), 1, shape_of(4, 128 * kMiB), nullptr, 0);
      for (const auto& send : made.sends) {
        if (send.after == 0) continue;
        EXPECT_GE(send.round, made.steps[send.after - 1].round + 2);
      }
    }
}

// Each copy costs its link time beyond its bytes; what comes last is small.
TEST(CopyReductionPlan, HaveFewLargePieces) {
  const CopyReductionPlan made =
      plan_copy_reduction(queue_of(Function::all_reduce, 1024 * kMiB / 4), 0, shape_of(4, 128 * kMiB), nullptr, 0);
  ASSERT_EQ(made.sends.size(), 14u);
  for (size_t i = 0; i < 11; ++i) EXPECT_EQ(made.sends[i].bytes, 128 * kMiB);
  for (size_t i = 11; i < 14; ++i) EXPECT_LT(made.sends[i].bytes, 44 * kMiB);
}

// One wait for room stands before as many copies as half of the places take.
TEST(CopyReductionPlan, WaitForRoomSeldom) {
  for (Function function : {Function::all_reduce, Function::reduce_scatter})
    for (uint64_t chunk : {16 * kMiB, 256 * kMiB, 1024 * kMiB}) {
      const CopyReductionPlan made =
          plan_copy_reduction(queue_of(function, chunk), 0, shape_of(4, 128 * kMiB), nullptr, 0);
      EXPECT_LE(made.held, made.places / 2) << "nobody would get on";
      uint64_t waits = 0, used = made.first_round;
      for (const auto& send : made.sends) {
        waits += made.used_before(send.round) != used;
        used = made.used_before(send.round);
      }
      EXPECT_LE(waits, made.rounds * 2 / made.places);
    }
}

TEST(CopyReductionPlan, AreForLargeReductionsWithAKernelForThem) {
  CommProperties shape = shape_of(4, 1 << 20);
  shape.copies.reductions = 1000;
  EXPECT_FALSE(reduces_by_copies(Function::all_reduce, 999, shape));
  EXPECT_TRUE(reduces_by_copies(Function::all_reduce, 1000, shape));
  EXPECT_FALSE(reduces_by_copies(Function::reduce, uint64_t{1} << 40, shape));
  EXPECT_FALSE(reduces_by_copies(Function::reduce_scatter, 499, shape));
  EXPECT_TRUE(reduces_by_copies(Function::reduce_scatter, 500, shape));
  for (Function function : {Function::broadcast, Function::all_gather, Function::scan, Function::exscan})
    EXPECT_FALSE(reduces_by_copies(function, uint64_t{1} << 40, shape));
  CollectiveTask task{};
  task.function = Function::all_reduce;
  task.kernels.plan = &kReduce;
  task.count = task.element_bytes = 100;
  EXPECT_FALSE(reduces_by_copies(task, shape));
  task.kernels.local = &kReduce;
  EXPECT_TRUE(reduces_by_copies(task, shape));
  shape.n_ranks = 2;
  EXPECT_FALSE(reduces_by_copies(Function::reduce, 1999, shape));
  EXPECT_TRUE(reduces_by_copies(Function::reduce, 2000, shape));
  shape.n_ranks = 1;
  EXPECT_FALSE(reduces_by_copies(task, shape));
}

TEST(CopyReductionPlan, TakeBoundedMemory) {
  for (int n : {2, 4, 8, 64}) {
    const CommProperties shape = shape_of(n, uint64_t{64} << 20);
    EXPECT_LE(landing_bytes(shape), uint64_t{513} << 20);
    EXPECT_EQ(shape.copies.piece % 128, 0u);
  }
}

}  // namespace
}  // namespace gpucoll::core
