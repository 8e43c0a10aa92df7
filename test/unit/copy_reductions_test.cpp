// Large reductions by copy engines as they are planned: all ranks played in host memory, copies and kernels at any time
// that their order allows, drawn at random. Whatever is overwritten too early shows in the result.
#include "core/copy_reductions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <utility>

#include "base/params.h"
#include "proto/format/local_reduction.h"

namespace gpucoll::core {
namespace {

using Random = std::mt19937;

const gpu::Kernel kReduce = {"reduce", nullptr, nullptr};

CommShape shape_of(int n, uint64_t piece) {
  CommShape shape;
  shape.n_ranks = n;
  shape.threads = 512;
  shape.emulated = true;
  shape.copy_reduction_bytes = 1;
  shape.copy_piece_bytes = copy_piece_bytes(n, piece);
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
  return static_cast<int64_t>(i * 31 + data.count) << 8 | int64_t{1} << rank;
}

// One rank and its memory.
struct Rank {
  std::vector<std::vector<int64_t>> in, out;  // by task
  std::vector<uint8_t> landing;
  TaskQueue queue;
  CopyReductions plan;
  uint32_t step = 0;

  void add(const Data& data, int rank, int n) {
    const uint64_t all = data.function == Function::reduce_scatter ? data.count * static_cast<uint64_t>(n) : data.count;
    in.emplace_back(all);
    for (uint64_t i = 0; i < all; ++i) in.back()[i] = operand(data, rank, i);
    out.emplace_back(data.in_place ? 0 : data.count);
    CollectiveTask task{};
    task.function = data.function;
    task.kernel = task.local = &kReduce;
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

// A message, seen from both sides; a copy reads and writes one half when it starts, and the other when it ends.
struct Copy {
  const StepMessage *send, *recv;
  int to;
  bool started = false, done = false;
  void move(bool second) const {
    const uint64_t half = send->bytes / 2, at = second ? half : 0;
    std::memcpy(static_cast<uint8_t*>(recv->buffer) + at, static_cast<const uint8_t*>(send->buffer) + at,
                second ? send->bytes - half : half);
  }
};

class Play {
 public:
  Play(int n, const CommShape& shape, const std::vector<Data>& tasks, uint32_t seed)
      : n_(n), shape_(shape), tasks_(tasks), random_(seed), ranks_(static_cast<size_t>(n)) {
    for (int r = 0; r < n; ++r) {
      Rank& rank = this->rank(r);
      for (const Data& data : tasks) rank.add(data, r, n);
      rank.landing.resize(landing_bytes(shape));
      rank.plan = plan_copy_reductions(rank.queue, r, shape, rank.landing.data());
    }
    for (int from = 0; from < n; ++from)
      for (int to = 0; to < n; ++to) match(from, to);
  }

  // Until all is done, or nothing can go on.
  void run() {
    for (int idle = 0; idle < 2000; ++idle)
      if (act()) idle = 0;
    for (const auto& lane : lanes_)
      for (const Copy& copy : lane) ASSERT_TRUE(copy.done) << "stands still";
    for (const Rank& rank : ranks_) ASSERT_EQ(rank.step, rank.plan.steps.size()) << "stands still";
    for (int r = 0; r < n_; ++r)
      for (size_t t = 0; t < tasks_.size(); ++t) check(r, t);
  }

 private:
  Rank& rank(int r) { return ranks_[static_cast<size_t>(r)]; }

  void match(int from, int to) {
    std::vector<Copy> lane;
    std::vector<const StepMessage*> sends, recvs;
    for (const StepMessage& m : rank(from).plan.messages.sends)
      if (m.peer == to) sends.push_back(&m);
    for (const StepMessage& m : rank(to).plan.messages.recvs)
      if (m.peer == from) recvs.push_back(&m);
    ASSERT_EQ(sends.size(), recvs.size());
    for (size_t i = 0; i < sends.size(); ++i) {
      ASSERT_EQ(sends[i]->bytes, recvs[i]->bytes);
      ASSERT_GT(sends[i]->bytes, 0u);
      lane.push_back({sends[i], recvs[i], to});
    }
    from_.push_back(from);
    lanes_.push_back(std::move(lane));
  }

  bool act() {
    const size_t what = random_() % (ranks_.size() + lanes_.size());
    return what < ranks_.size() ? act(static_cast<int>(what)) : act(lanes_[what - ranks_.size()], what - ranks_.size());
  }

  bool act(int r) {
    Rank& rank = this->rank(r);
    if (rank.step == rank.plan.steps.size()) return false;
    for (size_t l = 0; l < lanes_.size(); ++l)
      for (const Copy& copy : lanes_[l])
        if (!copy.done &&
            ((from_[l] == r && copy.send->needed <= rank.step) || (copy.to == r && copy.recv->needed <= rank.step)))
          return false;
    const PlannedLaunch& launch = rank.plan.steps[rank.step++];
    if (launch.kernel) reduce(proto::local_reduction(launch.plan));
    return true;
  }

  bool act(std::vector<Copy>& lane, size_t l) {
    for (Copy& copy : lane) {
      if (copy.done) continue;
      if (copy.send->ready > rank(from_[l]).step || copy.recv->ready > rank(copy.to).step) return false;
      copy.move(copy.started);
      copy.done = std::exchange(copy.started, true);
      return true;
    }
    return false;
  }

  static void reduce(const proto::LocalReduction& r) {
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
  const CommShape shape_;
  const std::vector<Data> tasks_;
  Random random_;
  std::vector<Rank> ranks_;
  std::vector<int> from_;  // of each lane
  std::vector<std::vector<Copy>> lanes_;
};

TEST(CopyReductions, AreRightInAnyOrderOfEvents) {
  Random random(5);
  for (uint32_t round = 0; round < 150; ++round) {
    const int n = 2 + static_cast<int>(random() % 4);
    std::vector<Data> tasks(1 + random() % 3);
    for (Data& data : tasks) {
      constexpr Function kFunctions[] = {Function::all_reduce, Function::reduce, Function::reduce_scatter};
      data = {kFunctions[random() % 3], 1 + random() % 500, random() % 2 == 0,
              static_cast<int>(random() % static_cast<unsigned>(n))};
    }
    SCOPED_TRACE(testing::Message() << "round " << round << ", " << n << " ranks");
    const CommShape shape = shape_of(n, random() % 2 ? 128 : 512);
    Play play(n, shape, tasks, round);
    play.run();
    if (HasFatalFailure()) return;
  }
}

// Links are full or idle: no rank sends or receives more than it must.
TEST(CopyReductions, MoveNoMoreThanTheyMust) {
  constexpr uint64_t bytes = 24 * 128 * 100;
  for (int n : {2, 3, 4, 5}) {
    const auto traffic = [&](Function function, int rank) {
      TaskQueue queue;
      CollectiveTask task{};
      task.function = function;
      task.kernel = task.local = &kReduce;
      task.element_bytes = 4;
      task.count = bytes / 4 / (function == Function::reduce_scatter ? static_cast<uint64_t>(n) : 1);
      queue.add(task);
      const StepMessages m = plan_copy_reductions(queue, rank, shape_of(n, 1280), nullptr).messages;
      std::pair<uint64_t, uint64_t> sums = {0, 0};
      for (const StepMessage& message : m.sends) sums.first += message.bytes;
      for (const StepMessage& message : m.recvs) sums.second += message.bytes;
      return sums;
    };
    constexpr uint64_t kRounding = 1000;
    for (int rank = 0; rank < n; ++rank) {
      const auto others = static_cast<uint64_t>(n - 1), all = static_cast<uint64_t>(n);
      for (uint64_t sum : {traffic(Function::all_reduce, rank).first, traffic(Function::all_reduce, rank).second})
        EXPECT_LE(sum, 2 * bytes * others / all + kRounding);
      for (uint64_t sum : {traffic(Function::reduce, rank).first, traffic(Function::reduce, rank).second})
        EXPECT_LE(sum, bytes + kRounding);
      EXPECT_LE(traffic(Function::reduce_scatter, rank).first, bytes * others / all + kRounding);
    }
  }
}

// To whom the ranks send at the same place of their order: each to another one. But for what a reduce's root does not
// get before there are results, and for the last results, which only it gets.
TEST(CopyReductions, SendToEachRankFromOneOther) {
  for (int n : {3, 4, 5})
    for (Function function : {Function::all_reduce, Function::reduce, Function::reduce_scatter}) {
      constexpr uint32_t pieces = 6;
      TaskQueue queue;
      CollectiveTask task{};
      task.function = function;
      task.kernel = task.local = &kReduce;
      task.element_bytes = 4;
      task.root = 1;
      const int owners = function == Function::reduce ? n - 1 : n;
      task.count = 128 / 4 * pieces * static_cast<uint64_t>(function == Function::reduce_scatter ? 1 : owners);
      queue.add(task);
      std::map<uint32_t, std::vector<std::vector<int>>> receivers;  // by `ready` and place: of all ranks
      for (int rank = 0; rank < n; ++rank) {
        std::map<uint32_t, size_t> places;
        for (const StepMessage& send : plan_copy_reductions(queue, rank, shape_of(n, 128), nullptr).messages.sends) {
          std::vector<std::vector<int>>& of_step = receivers[send.ready];
          const size_t place = places[send.ready]++;
          if (of_step.size() <= place) of_step.resize(place + 1);
          of_step[place].push_back(send.peer);
        }
      }
      const uint32_t first = function == Function::reduce ? 1 : 0,
                     last = function == Function::reduce ? pieces - 2 : pieces;
      for (auto& [ready, of_step] : receivers) {
        if (ready < first || ready > last) continue;
        for (std::vector<int>& of_place : of_step) {
          std::sort(of_place.begin(), of_place.end());
          ASSERT_EQ(of_place.size(), static_cast<size_t>(n));
          EXPECT_EQ(std::unique(of_place.begin(), of_place.end()), of_place.end()) << n << " ranks, step " << ready;
        }
      }
      EXPECT_GE(receivers.size(), function == Function::reduce_scatter ? 5u : 7u);
    }
}

TEST(CopyReductions, AreForLargeReductionsWithAKernelForThem) {
  CommShape shape = shape_of(4, 1 << 20);
  shape.copy_reduction_bytes = 1000;
  EXPECT_FALSE(reduces_by_copies(Function::all_reduce, 999, shape));
  EXPECT_TRUE(reduces_by_copies(Function::all_reduce, 1000, shape));
  EXPECT_TRUE(reduces_by_copies(Function::reduce, 1000, shape));
  EXPECT_FALSE(reduces_by_copies(Function::reduce_scatter, 249, shape));
  EXPECT_TRUE(reduces_by_copies(Function::reduce_scatter, 250, shape));
  for (Function function : {Function::broadcast, Function::all_gather, Function::scan, Function::exscan})
    EXPECT_FALSE(reduces_by_copies(function, uint64_t{1} << 40, shape));
  CollectiveTask task{};
  task.function = Function::all_reduce;
  task.kernel = &kReduce;
  task.count = task.element_bytes = 100;
  EXPECT_FALSE(reduces_by_copies(task, shape));
  task.local = &kReduce;
  EXPECT_TRUE(reduces_by_copies(task, shape));
  shape.n_ranks = 1;
  EXPECT_FALSE(reduces_by_copies(task, shape));
}

TEST(CopyReductions, TakeBoundedMemory) {
  for (int n : {2, 4, 8, 64}) {
    const CommShape shape = shape_of(n, uint64_t{64} << 20);
    EXPECT_LE(landing_bytes(shape), uint64_t{513} << 20);
    EXPECT_EQ(shape.copy_piece_bytes % 128, 0u);
  }
}

}  // namespace
}  // namespace gpucoll::core
