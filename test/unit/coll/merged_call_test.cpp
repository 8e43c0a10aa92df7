// What a leader makes of what its group hands over: groups by device, messages that two leaders have in one order, and
// chains of reductions in the order of ranks, carried out here with an operation that tells orders apart.
#include "coll/shared_gpu/merged_call.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <random>

#include "mpi/staging/packing.h"

namespace gpucoll::coll {
namespace {

using core::CollectiveTask;
using core::TaskQueue;
using proto::Function;

DeviceGroups groups_on(const std::vector<int>& devices) {
  std::vector<gc_board_line> lines(devices.size());
  for (size_t r = 0; r < lines.size(); ++r) {
    lines[r] = {};
    lines[r].device[15] = static_cast<uint8_t>(devices[r]);
  }
  return groups_of(lines);
}

gpu::Device& device() { return **gpu::emu_platform().open(0); }

std::vector<const TaskQueue*> parts_of(const DeviceGroups& groups, int group, const std::vector<TaskQueue>& queues) {
  std::vector<const TaskQueue*> parts;
  for (int rank : groups.members[static_cast<size_t>(group)]) parts.push_back(&queues[static_cast<size_t>(rank)]);
  return parts;
}

TEST(DeviceGroups, AreNumberedByTheirLeaders) {
  const DeviceGroups groups = groups_on({7, 3, 7, 3, 3, 9});
  EXPECT_EQ(groups.of, (std::vector<int>{0, 1, 0, 1, 1, 2}));
  EXPECT_EQ(groups.members, (std::vector<std::vector<int>>{{0, 2}, {1, 3, 4}, {5}}));
  EXPECT_EQ(groups.leaders(), (std::vector<int>{0, 1, 5}));
  EXPECT_EQ(groups.leader_of(4), 1);
  EXPECT_EQ(list_of({1, 3, 4}), "ranks 1, 3, 4");
}

using Element = uint64_t;

// ---- messages ----

constexpr uint64_t kSent = uint64_t{1} << 40, kReceived = uint64_t{2} << 40;
uint64_t tag(int from, int to, int which) { return static_cast<uint64_t>((from * 16 + to) * 4 + which) << 8; }
void* place(uint64_t base, int from, int to, int which) { return reinterpret_cast<void*>(base + tag(from, to, which)); }
uint64_t tag_of(const TaskQueue::Pair& message, uint64_t base) {
  return reinterpret_cast<uintptr_t>(message.buffer) - base;
}

TEST(TeamCall, TwoLeadersHaveTheirMessagesInOneOrder) {
  std::mt19937 random(23);
  for (int round = 0; round < 100; ++round) {
    const int n = 2 + static_cast<int>(random() % 6);
    std::vector<int> devices;
    for (int r = 0; r < n; ++r) devices.push_back(r ? static_cast<int>(random() % 3) : 3);
    const DeviceGroups groups = groups_on(devices);
    std::vector<TaskQueue> queues(static_cast<size_t>(n));
    // Up to three messages of a pair, which each rank names in an order of its own among its peers.
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < n; ++j)
        for (int k = 0; k < static_cast<int>(random() % 4); ++k) {
          const int from = (i * 5 + 3) % n, to = (j * 7 + 1) % n;
          const uint64_t bytes = 1 + tag(from, to, k) / 256;
          queues[static_cast<size_t>(from)].sends.push_back({to, place(kSent, from, to, k), bytes});
          queues[static_cast<size_t>(to)].recvs.push_back({from, place(kReceived, from, to, k), bytes});
        }
    std::vector<TaskQueue> whole(static_cast<size_t>(groups.size()));
    Scratch scratch;
    size_t total = 0;
    for (int t = 0; t < groups.size(); ++t) {
      const Status made =
          compose(groups, t, parts_of(groups, t, queues), false, device(), scratch, &whole[static_cast<size_t>(t)]);
      ASSERT_TRUE(made.ok()) << made.what();
    }
    for (int a = 0; a < groups.size(); ++a)
      for (int b = 0; b < groups.size(); ++b) {
        std::vector<uint64_t> sent, received;
        for (const auto& send : whole[static_cast<size_t>(a)].sends)
          if (send.peer == b) sent.push_back(tag_of(send, kSent));
        for (const auto& recv : whole[static_cast<size_t>(b)].recvs)
          if (recv.peer == a) received.push_back(tag_of(recv, kReceived));
        EXPECT_EQ(sent, received) << "round " << round << ", from " << a << " to " << b;
        total += sent.size();
      }
    size_t wanted = 0;
    for (const TaskQueue& queue : queues) wanted += queue.sends.size();
    EXPECT_EQ(total, wanted);
  }
}

// Nothing but copies, where all messages are of one device; behind reductions of what has come they could not be.
TEST(TeamCall, MessagesWithinOneDeviceAreCopies) {
  const DeviceGroups groups = groups_on({5, 5, 5});
  std::vector<std::vector<uint8_t>> from, to;
  std::vector<TaskQueue> queues(3);
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 3; ++j) {
      const size_t bytes = static_cast<size_t>(1 + (i * 3 + j) * 700);
      from.emplace_back(bytes, static_cast<uint8_t>(i * 3 + j + 1));
      to.emplace_back(bytes + 1, 0);
    }
  for (size_t i = 0; i < 3; ++i)
    for (size_t j = 0; j < 3; ++j) {
      std::vector<uint8_t>& sent = from[i * 3 + j];
      queues[i].sends.push_back({static_cast<int>(j), sent.data(), sent.size()});
      queues[j].recvs.push_back({static_cast<int>(i), to[i * 3 + j].data(), sent.size()});
    }
  Scratch scratch;
  TaskQueue whole;
  ASSERT_TRUE(compose(groups, 0, parts_of(groups, 0, queues), false, device(), scratch, &whole).ok());
  EXPECT_TRUE(whole.sends.empty() && whole.recvs.empty());
  for (const auto& copy : whole.spread) std::memcpy(copy.packed, copy.memory, copy.bytes);
  for (size_t m = 0; m < from.size(); ++m) {
    from[m].push_back(0);
    EXPECT_EQ(to[m], from[m]) << m;
  }
  queues[1].late_reductions.push_back({nullptr, {}, 4});
  ASSERT_TRUE(compose(groups, 0, parts_of(groups, 0, queues), false, device(), scratch, &whole).ok());
  EXPECT_EQ(whole.sends.size(), 9u);
  EXPECT_TRUE(whole.spread.empty());
}

// Copies of one launch come in any order, behind all messages.
TEST(TeamCall, AnAllgatherCopiesOnWhatHasCome) {
  for (int n = 2; n <= 9; ++n)
    for (bool in_place : {false, true})
      for (bool reversed : {false, true}) {
        const auto size = static_cast<size_t>(n);
        const DeviceGroups groups = groups_on(std::vector<int>(size, 1));
        std::vector<TaskQueue> queues(size);
        std::vector<Element> in(size), wanted(size);
        std::vector<std::vector<Element>> out(size, std::vector<Element>(size, 0));
        for (size_t r = 0; r < size; ++r) {
          wanted[r] = in[r] = out[r][r] = 100 + r;
          CollectiveTask task = {};
          task.function = Function::all_gather;
          task.send = in_place ? &out[r][r] : &in[r];
          task.recv = out[r].data();
          task.count = 1;
          task.element_bytes = sizeof(Element);
          queues[r].collectives.push_back(task);
        }
        Scratch scratch;
        TaskQueue whole;
        ASSERT_TRUE(compose(groups, 0, parts_of(groups, 0, queues), false, device(), scratch, &whole).ok());
        ASSERT_EQ(whole.sends.size(), whole.recvs.size());
        for (size_t m = 0; m < whole.sends.size(); ++m)
          std::memcpy(whole.recvs[m].buffer, whole.sends[m].buffer, whole.sends[m].bytes);
        if (reversed) std::reverse(whole.spread.begin(), whole.spread.end());
        for (const auto& copy : whole.spread) std::memcpy(copy.packed, copy.memory, copy.bytes);
        for (size_t r = 0; r < size; ++r) EXPECT_EQ(out[r], wanted) << "rank " << r << " of " << n;
      }
}

// Kernels take time to launch.
TEST(TeamCall, FewMembersReduceInOneKernel) {
  const gpu::Kernel kernel = {};
  for (int n : {2, 3, 4, 6}) {
    const DeviceGroups groups = groups_on(std::vector<int>(static_cast<size_t>(n), 1));
    std::vector<TaskQueue> queues(static_cast<size_t>(n));
    std::vector<Element> in(static_cast<size_t>(n)), out(in.size());
    for (size_t r = 0; r < queues.size(); ++r) {
      CollectiveTask task = {};
      task.function = Function::all_reduce;
      task.send = &in[r];
      task.recv = &out[r];
      task.count = 1;
      task.element_bytes = sizeof(Element);
      task.kernels.local = &kernel;
      queues[r].collectives.push_back(task);
    }
    Scratch scratch;
    TaskQueue whole;
    ASSERT_TRUE(compose(groups, 0, parts_of(groups, 0, queues), false, device(), scratch, &whole).ok());
    EXPECT_EQ(whole.reductions.size(), static_cast<size_t>(n / 2));
    EXPECT_EQ(whole.spread.size(), static_cast<size_t>(std::max(n - 3, 0)));
  }
}

// Large ones in the widest units in which both addresses agree, whatever their length.
TEST(Copies, AreCutWhereWideUnitsBegin) {
  constexpr uintptr_t kFrom = uintptr_t{1} << 30, kTo = uintptr_t{1} << 31;
  for (uintptr_t from : {0, 1, 3, 4, 15})
    for (uintptr_t to : {0, 1, 3, 12, 15})
      for (size_t bytes : {1, 4095, 4096, 100001}) {
        TaskQueue queue;
        add_copy(queue, &queue.spread, reinterpret_cast<void*>(kTo + to), reinterpret_cast<void*>(kFrom + from), bytes);
        const int unit = std::min(4, std::countr_zero((from ^ to) | 16));
        size_t at = 0, widest = 0;
        for (const proto::PackItem& item : queue.spread) {
          EXPECT_EQ(reinterpret_cast<uintptr_t>(item.memory), kFrom + from + at);
          EXPECT_EQ(reinterpret_cast<uintptr_t>(item.packed), kTo + to + at);
          const auto meets =
              reinterpret_cast<uintptr_t>(item.memory) | reinterpret_cast<uintptr_t>(item.packed) | item.bytes;
          EXPECT_EQ(meets & ((uintptr_t{1} << item.unit) - 1), 0u);
          at += item.bytes;
          if (item.unit == unit) widest = std::max(widest, item.bytes);
        }
        EXPECT_EQ(at, bytes);
        if (bytes >= 4096) {
          EXPECT_GE(widest + 30, bytes) << from << " to " << to;
        }
      }
}

TEST(TeamCall, MembersThatDisagreeAreNamed) {
  const DeviceGroups groups = groups_on({0, 1, 0});
  std::vector<TaskQueue> queues(3);
  queues[2].sends.push_back({0, place(kSent, 2, 0, 0), 12});
  queues[0].recvs.push_back({2, place(kReceived, 2, 0, 0), 13});
  Scratch scratch;
  TaskQueue whole;
  Status made = compose(groups, 0, parts_of(groups, 0, queues), false, device(), scratch, &whole);
  EXPECT_STREQ(made.what(), "rank 2 sends 12 bytes to rank 0, which receives 13 bytes");
  queues[0].recvs.clear();
  made = compose(groups, 0, parts_of(groups, 0, queues), false, device(), scratch, &whole);
  EXPECT_STREQ(made.what(), "rank 2 sends 12 bytes to rank 0, which receives nothing");
  queues[2].sends.clear();
  queues[2].recvs.push_back({0, place(kReceived, 0, 2, 0), 5});
  made = compose(groups, 0, parts_of(groups, 0, queues), false, device(), scratch, &whole);
  EXPECT_STREQ(made.what(), "rank 2 receives 5 bytes from rank 0, which sends nothing");
}

TEST(TeamCall, KeepsWhatMembersReduceOfWhatTheyReceive) {
  const DeviceGroups groups = groups_on({0, 1, 0});
  std::vector<TaskQueue> queues(3);
  const gpu::Kernel kernel = {};
  for (const size_t rank : {0, 2}) {
    queues[rank].late_reductions.push_back({&kernel, {}, sizeof(uint64_t)});
    queues[rank].late_reductions[0].reduction.count = rank + 5;
  }
  Scratch scratch;
  TaskQueue whole;
  ASSERT_TRUE(compose(groups, 0, parts_of(groups, 0, queues), false, device(), scratch, &whole).ok());
  ASSERT_EQ(whole.late_reductions.size(), 2u);
  EXPECT_EQ(whole.late_reductions[0].reduction.count, 5u);
  EXPECT_EQ(whole.late_reductions[1].reduction.count, 7u);
}

// ---- reductions ----

Element reduced(Element a, Element b) { return a * 31 + b; }

// As the kernel does (kernels/local_reduce.h).
void carry_out(const proto::LocalReduction& r) {
  for (uint64_t i = 0; i < r.count; ++i) {
    const auto operand = [&](uint32_t rank) {
      const uint8_t* at = rank == r.rank ? r.own : r.others + (rank < r.rank ? rank : rank - 1) * r.stride;
      return reinterpret_cast<const Element*>(at)[i];
    };
    Element sum = operand(0);
    for (uint32_t rank = 1; rank < r.n_ranks; ++rank) sum = reduced(sum, operand(rank));
    reinterpret_cast<Element*>(r.result)[i] = sum;
    for (int k = 0; k < r.n_more; ++k) reinterpret_cast<Element*>(r.more[k])[i] = sum;
  }
}

// On one device, where nothing is left for other leaders.
void carry_out(const TaskQueue& whole) {
  ASSERT_TRUE(whole.collectives.empty() && whole.sends.empty());
  for (const auto& task : whole.reductions) carry_out(task.reduction);
  for (const auto& task : whole.late_reductions) carry_out(task.reduction);
  for (const auto& copy : whole.spread) std::memcpy(copy.packed, copy.memory, copy.bytes);
}

class Reductions : public testing::TestWithParam<std::tuple<int, bool, bool>> {};

TEST_P(Reductions, KeepTheOrderOfRanks) {
  const auto [n, in_place, gaps] = GetParam();
  constexpr uint64_t kCount = 5;
  constexpr Element kUntouched = 77;
  const DeviceGroups groups = groups_on(std::vector<int>(static_cast<size_t>(n), 4));
  const gpu::Kernel kernel = {};
  for (const Function function :
       {Function::all_reduce, Function::reduce, Function::reduce_scatter, Function::scan, Function::exscan})
    for (int root = 0; root < (function == Function::reduce ? n : 1); ++root) {
      const bool scatters = function == Function::reduce_scatter;
      const size_t length = kCount * static_cast<size_t>(scatters ? n : 1);
      std::vector<std::vector<Element>> inputs, outputs;
      for (int r = 0; r < n; ++r) {
        inputs.emplace_back();
        for (size_t i = 0; i < length; ++i) inputs.back().push_back(static_cast<Element>(r + 2) * 1000 + i);
        outputs.emplace_back(kCount, kUntouched);
      }
      const std::vector<std::vector<Element>> operands = inputs;
      std::vector<TaskQueue> queues(static_cast<size_t>(n));
      const bool same_place = in_place && !scatters;  // its result lies in scratch memory then
      for (size_t r = 0; r < queues.size(); ++r) {
        CollectiveTask task = {};
        task.function = function;
        task.send = inputs[r].data();
        task.recv = same_place ? inputs[r].data() : outputs[r].data();
        task.count = kCount;
        task.element_bytes = sizeof(Element);
        task.root = static_cast<uint32_t>(root);
        task.kernels.local = &kernel;
        queues[r].collectives.push_back(task);
      }
      Scratch scratch;
      TaskQueue whole;
      ASSERT_TRUE(compose(groups, 0, parts_of(groups, 0, queues), false, device(), scratch, &whole).ok());
      // What the leader may launch with gaps is checked by its shape alone: this operation is not idempotent.
      TaskQueue with_gaps;
      ASSERT_TRUE(compose(groups, 0, parts_of(groups, 0, queues), gaps, device(), scratch, &with_gaps).ok());
      EXPECT_EQ(with_gaps.reductions.size() + with_gaps.late_reductions.size() + with_gaps.spread.size(),
                whole.reductions.size() + whole.late_reductions.size() + whole.spread.size());
      if (gaps) {
        EXPECT_TRUE(with_gaps.spread.empty());
      }
      if (!gaps) carry_out(with_gaps);
      for (int r = 0; !gaps && r < n; ++r) {
        const bool gets = function == Function::exscan ? r > 0 : function != Function::reduce || r == root;
        if (!gets) continue;
        const int past = function == Function::scan ? r + 1 : function == Function::exscan ? r : n;
        const std::vector<Element>& got = same_place ? inputs[static_cast<size_t>(r)] : outputs[static_cast<size_t>(r)];
        for (size_t i = 0; i < kCount; ++i) {
          const size_t at = i + (scatters ? static_cast<size_t>(r) * kCount : 0);
          Element wanted = operands[0][at];
          for (int k = 1; k < past; ++k) wanted = reduced(wanted, operands[static_cast<size_t>(k)][at]);
          ASSERT_EQ(got[i], wanted) << "function " << static_cast<int>(function) << ", root " << root << ", rank " << r;
        }
      }
    }
}

INSTANTIATE_TEST_SUITE_P(TeamCall, Reductions,
                         testing::Combine(testing::Range(2, 9), testing::Bool(), testing::Bool()));

}  // namespace
}  // namespace gpucoll::coll
