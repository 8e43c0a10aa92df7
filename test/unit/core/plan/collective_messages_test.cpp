// Collectives whose place messages take, and reductions of what these bring.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/params.h"
#include "core/plan/collective_send_recv.h"
#include "core/plan/tuning_file.h"
#include "planner_cases.h"

namespace gpucoll::core {
namespace {

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

}  // namespace
}  // namespace gpucoll::core
