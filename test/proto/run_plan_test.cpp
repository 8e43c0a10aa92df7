// Sends and receives, and plans that mix them with collectives, through run_plan.
#include <deque>

#include "collective_case.h"

namespace gpucoll {
namespace {

using proto::Algorithm;
using proto::Function;
using proto::Protocol;
using test::Buffer;

using Sums = proto::Family<proto::Max<float>, proto::Sum<float>>;
constexpr uint8_t kSum = 1;
constexpr test::EmuKernel kKernel = &test::family_kernel<Sums>;

// One message. Parts and protocol follow from its bytes, as they do in the core.
struct Mail {
  int from, to;
  uint64_t bytes;
  size_t send_offset = 0, recv_offset = 0;

  uint8_t byte(uint64_t i) const {
    return static_cast<uint8_t>((i * 31 + i / 251 + static_cast<uint64_t>(from) * 101 + static_cast<uint64_t>(to) * 7));
  }
  uint8_t parts(int n_channels) const {
    const int wanted = bytes < 100 ? 1 : bytes < 700 ? 2 : 4;
    return static_cast<uint8_t>(std::min(wanted, n_channels));
  }
  Protocol protocol() const { return bytes % 3 == 0 ? Protocol::ll : Protocol::simple; }
  bool looks() const { return bytes % 7 != 1; }
  bool grants() const { return bytes % 5 != 1; }
};

// The messages of a launch in rounds: in one all run side by side.
using Round = std::vector<Mail>;

class Exchange {
 public:
  Exchange(int n_ranks, int n_channels, int threads, uint64_t first_step = 0)
      : world(n_ranks, n_channels, kSlotBytes, first_step), n_(n_ranks), n_channels_(n_channels), threads_(threads) {
    world.add_pairs(n_channels, 128);
    plans.assign(static_cast<size_t>(n_), test::PlanMaker((uint64_t{1} << n_channels) - 1));
  }
  void add(const Round& round) {
    std::vector<std::vector<proto::WorkItem>> items(static_cast<size_t>(n_));
    for (const Mail& mail : round) {
      memory_.push_back({mail, Buffer(mail.bytes, mail.send_offset), Buffer(mail.bytes, mail.recv_offset)});
      for (uint64_t i = 0; i < mail.bytes; ++i) memory_.back().sent.data()[i] = mail.byte(i);
      send(items[static_cast<size_t>(mail.from)], mail, memory_.back().sent.data());
      receive(items[static_cast<size_t>(mail.to)], mail, memory_.back().received.data());
    }
    for (size_t r = 0; r < items.size(); ++r) plans[r].add(kPairs, items[r]);
  }
  void run(bool in_fifo = false) {
    test::run_plans(kKernel, world, plans, threads_, in_fifo);
    if (!testing::Test::HasFatalFailure()) check();
  }

  static constexpr uint32_t kSlotBytes = 256;  // of collectives
  static constexpr proto::Batch kPairs = {0, Function::send_recv, Algorithm::pairwise, Protocol::simple, 0, 0, 0};
  test::World world;
  std::vector<test::PlanMaker> plans;

 private:
  struct Memory {
    Mail mail;
    Buffer sent, received;
  };

  // The rank's item over so many ranks that has nothing on that side yet.
  template <class Free>
  proto::SendRecvItem& item_over(std::vector<proto::WorkItem>& items, const Mail& mail, const Free& is_free) {
    const auto distance = static_cast<uint32_t>((mail.to - mail.from + n_) % n_);
    for (proto::WorkItem& item : items) {
      if (item.pair.distance == distance && is_free(item.pair)) return item.pair;
    }
    proto::SendRecvItem& item = items.emplace_back().pair;
    item = {};
    item.send_peer = item.recv_peer = -1;
    item.distance = distance;
    return item;
  }
  void send(std::vector<proto::WorkItem>& items, const Mail& mail, const void* from) {
    proto::SendRecvItem& item = item_over(items, mail, [](const proto::SendRecvItem& i) { return i.send_peer < 0; });
    item.send = from;
    item.send_bytes = mail.bytes;
    item.send_peer = mail.to;
    item.send_parts = mail.parts(n_channels_);
    item.send_protocol = mail.protocol();
    if (mail.looks()) item.direct |= proto::kLooksForGrants;
  }
  void receive(std::vector<proto::WorkItem>& items, const Mail& mail, void* to) {
    proto::SendRecvItem& item = item_over(items, mail, [](const proto::SendRecvItem& i) { return i.recv_peer < 0; });
    item.recv = to;
    item.recv_bytes = mail.bytes;
    item.recv_peer = mail.from;
    item.recv_parts = mail.parts(n_channels_);
    item.recv_protocol = mail.protocol();
    item.granted = static_cast<uint8_t*>(to);
    if (mail.grants()) item.direct |= proto::kGrants;
  }
  void check() {
    for (Memory& memory : memory_) {
      const Mail& mail = memory.mail;
      SCOPED_TRACE(testing::Message() << mail.bytes << " bytes from " << mail.from << " to " << mail.to);
      for (uint64_t i = 0; i < mail.bytes; ++i) ASSERT_EQ(memory.received.data()[i], mail.byte(i)) << i;
      EXPECT_TRUE(memory.received.same_around()) << "wrote outside of the buffer";
    }
  }

  int n_, n_channels_, threads_;
  std::deque<Memory> memory_;  // which does not move
};

// Everybody to everybody, of sizes that differ, some of nothing.
Round all_to_all(int n, uint64_t most) {
  Round round;
  for (int i = 0; i < n * n; ++i) {
    const uint64_t bytes = most * static_cast<uint64_t>(i * 13 % 7) / 6 + static_cast<uint64_t>(i % 5);
    round.push_back({i / n, i % n, i % 4 == 0 ? 0 : bytes});
  }
  return round;
}

class SendRecv : public testing::TestWithParam<int> {};  // the parameter: threads for each side of an item

TEST_P(SendRecv, AllDistances) {
  for (int n = 1; n <= 5; ++n) {
    for (uint64_t most : {0, 60, 900, 9000}) {
      SCOPED_TRACE(testing::Message() << n << " ranks, " << most << " bytes");
      Exchange exchange(n, 4, 2 * n * GetParam());
      exchange.add(all_to_all(n, most));
      exchange.run();
    }
  }
}

TEST_P(SendRecv, OneAndTwoChannels) {
  for (int channels : {1, 2}) {
    Exchange exchange(3, channels, 6 * GetParam());
    exchange.add(all_to_all(3, 2500));
    exchange.run();
  }
}

TEST_P(SendRecv, EightItemsSideBySide) {
  Exchange exchange(8, 1, 16 * GetParam());
  exchange.add(all_to_all(8, 700));
  exchange.run(true);
}

TEST_P(SendRecv, SeveralBatchesAndOneSide) {
  for (bool in_fifo : {false, true}) {
    Exchange exchange(4, 2, 8 * GetParam());
    exchange.add(all_to_all(4, 1000));
    exchange.add({{0, 3, 500}, {1, 3, 17}, {2, 3, 1999}, {3, 3, 64}});  // gathers
    exchange.add(all_to_all(4, 100));
    exchange.add({{1, 0, 3000}, {1, 2, 5}, {1, 3, 0}});  // scatters
    exchange.run(in_fifo);
  }
}

TEST_P(SendRecv, EveryAlignment) {
  Round round;
  for (size_t i = 0; i < 16; ++i)
    round.push_back({static_cast<int>(i / 4), static_cast<int>(i % 4), 1000 + i, i, i * 5 % 16});
  Exchange exchange(4, 2, 8 * GetParam());
  exchange.add(round);
  exchange.run();
}

TEST_P(SendRecv, CountersWrap) {
  for (uint64_t first_step : {uint64_t{0} - 3, uint64_t{0} - 20, (uint64_t{1} << 32) - 9}) {
    Exchange exchange(3, 2, 6 * GetParam(), first_step);
    for (int i = 0; i < 4; ++i) exchange.add(all_to_all(3, 3000));
    exchange.run();
  }
}

// Those of one or two LL steps go another way than longer ones: on one connection they follow each other, for longer
// than its slots last, also where their packs outnumber the threads.
TEST_P(SendRecv, ShortOnesAmongLongerOnes) {
  for (uint64_t first_step : {uint64_t{0}, uint64_t{0} - 5}) {
    Exchange exchange(3, 2, 6 * GetParam(), first_step);
    std::mt19937 random(5);
    for (int i = 0; i < 30; ++i) {
      Round round;
      for (int pair = 0; pair < 9; ++pair) {
        const uint64_t bytes = random() % 3 == 0 ? 51 + random() % 40 : random() % 33;  // 48: the most of one step
        round.push_back({pair / 3, pair % 3, 3 * bytes, random() % 5, random() % 5});
      }
      exchange.add(round);
    }
    exchange.run(true);
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, SendRecv, testing::Values(1, 2));

// Rank 1 sends `sent` bytes to rank 0, which expects others.
void run_mismatch(uint64_t sent, Protocol sends, int send_parts, uint64_t expected, Protocol receives, int recv_parts,
                  uint8_t direct) {
  SCOPED_TRACE(testing::Message() << sent << " bytes sent over " << static_cast<int>(sends) << ", " << expected
                                  << " expected over " << static_cast<int>(receives));
  test::World world(2, 1, 128);
  world.add_pairs(4, 128);
  Buffer from(sent), to(expected);
  std::vector<test::PlanMaker> plans(2, test::PlanMaker(0b1111));
  proto::WorkItem item{};
  item.pair.send_peer = item.pair.recv_peer = -1;
  item.pair.distance = 1;
  item.pair.direct = direct;
  proto::WorkItem other = item;
  item.pair.recv = item.pair.granted = to.data();
  item.pair.recv_bytes = expected;
  item.pair.recv_peer = 1;
  item.pair.recv_parts = static_cast<uint8_t>(recv_parts);
  item.pair.recv_protocol = receives;
  other.pair.send = from.data();
  other.pair.send_bytes = sent;
  other.pair.send_peer = 0;
  other.pair.send_parts = static_cast<uint8_t>(send_parts);
  other.pair.send_protocol = sends;
  plans[0].add(Exchange::kPairs, {item});
  plans[1].add(Exchange::kPairs, {other});
  test::run_plans(kKernel, world, plans, 2);
  EXPECT_EQ(world.latch().kind, proto::kFaultSizes);
  EXPECT_EQ(world.latch().abort, 1u);
  EXPECT_EQ(world.latch().peer, 1);
  EXPECT_EQ(world.latch().sent_bytes, sent);
  EXPECT_EQ(world.latch().expected_bytes, expected);
  EXPECT_TRUE(to.same_around());
}

TEST(SendRecvFault, SizesThatDifferAreFoundWhateverTheProtocols) {
  for (Protocol sends : {Protocol::simple, Protocol::ll}) {
    for (Protocol receives : {Protocol::simple, Protocol::ll}) {
      for (uint8_t direct : {0, proto::kLooksForGrants | proto::kGrants}) {
        run_mismatch(100, sends, 1, 101, receives, 1, direct);
        run_mismatch(0, sends, 1, 5, receives, 1, direct);
        run_mismatch(5, sends, 1, 0, receives, 1, direct);
        run_mismatch(20000, sends, 1, 300, receives, 4, direct);
        run_mismatch(300, sends, 4, 20000, receives, 2, direct);
      }
    }
  }
}

TEST(SendRecvFault, LatchEndsEveryWait) {
  test::World world(2, 1, 128);
  world.add_pairs(2, 128);
  std::vector<uint8_t> data(100000);
  test::PlanMaker maker(3);
  for (Protocol protocol : {Protocol::simple, Protocol::ll}) {
    proto::WorkItem item{};
    item.pair = {data.data(), data.data() + 50000, 50000, 50000, 1, 1, 1, 2, 2, protocol, protocol, nullptr, 0, {}};
    maker.add(Exchange::kPairs, {item});
  }
  test::expect_latch_ends(world, maker.make(false), 2, kKernel);
}

// ---- everything in one launch ----

using Memory = test::CaseMemory;
using Values = test::ValuesOf<proto::Sum<float>>;

class MixedPlan {
 public:
  MixedPlan(int n_ranks, int n_channels) : exchange(n_ranks, n_channels, 2 * n_ranks), n_(n_ranks) {}
  // Operations of one kind, in a batch; `first` to `first + n` are their channels.
  void add(Function function, Algorithm algorithm, Protocol protocol, int first, int n, int items) {
    std::vector<std::vector<proto::WorkItem>> work(static_cast<size_t>(n_));
    for (int i = 0; i < items; ++i) {
      test::Case& c = cases_.emplace_back(
          test::Case{function, algorithm, protocol, n_, n, 0, 100 + 371 * static_cast<uint64_t>(cases_.size() % 5)});
      c.slot_bytes = Exchange::kSlotBytes;
      c.first_channel = first;
      c.root = i % n_;
      c.in_place = i % 2 == 0;
      c.reduction.op = kSum;
      const Values& values = values_.emplace_back(c, cases_.size());
      for (size_t r = 0; r < work.size(); ++r)
        work[r].push_back(test::item_of(c, memory_.emplace_back(c, values, r), r));
    }
    const uint64_t channels = ((uint64_t{1} << n) - 1) << first;
    for (size_t r = 0; r < work.size(); ++r)
      exchange.plans[r].add({0, function, algorithm, protocol, kSum, 0, 0}, work[r], channels);
  }
  void run(bool in_fifo) {
    exchange.run(in_fifo);
    for (Memory& memory : memory_) memory.check();
  }
  Exchange exchange;

 private:
  int n_;
  std::deque<test::Case> cases_;
  std::deque<Values> values_;
  std::deque<Memory> memory_;
};

TEST(RunPlan, MixesCollectivesWithSendsAndReceives) {
  for (bool in_fifo : {false, true}) {
    MixedPlan plan(3, 4);
    plan.add(Function::all_reduce, Algorithm::ring, Protocol::simple, 0, 4, 2);
    plan.add(Function::all_gather, Algorithm::ring, Protocol::ll128, 0, 1, 1);
    plan.add(Function::broadcast, Algorithm::ring, Protocol::ll, 1, 2, 3);
    plan.exchange.add(all_to_all(3, 2000));
    plan.add(Function::all_reduce, Algorithm::tree, Protocol::ll, 0, 2, 2);
    plan.add(Function::all_reduce, Algorithm::tree, Protocol::simple, 1, 2, 1);
    plan.add(Function::reduce, Algorithm::ring, Protocol::ll128, 2, 2, 2);
    plan.exchange.add(all_to_all(3, 50));
    plan.exchange.add(all_to_all(3, 200));
    plan.add(Function::reduce_scatter, Algorithm::ring, Protocol::ll, 3, 1, in_fifo ? 30 : 1);
    plan.add(Function::all_reduce, Algorithm::tree, Protocol::ll128, 0, 4, 1);
    plan.run(in_fifo);
  }
}

// What becomes part of a graph tells nobody that it is done; the blocks' counter is left as it was found.
TEST(RunPlan, NeedsNoCompletionWord) {
  test::World world(1, 3, 128);
  std::vector<float> in(1000, 3.0f), out(1000);
  proto::WorkItem item{};
  item.collective.send = in.data();
  item.collective.recv = out.data();
  item.collective.count = in.size();
  item.collective.n_channels = 3;
  test::PlanMaker maker(0b111);
  maker.add({0, Function::all_reduce, Algorithm::ring, Protocol::simple, kSum, 0, 0}, {item});
  proto::Plan plan = maker.make(false);
  plan.comm = &world.comm(0);
  world.comm(0).counters = {5, 6, {}};
  for (int launch = 0; launch < 2; ++launch) {
    std::fill(out.begin(), out.end(), 0.0f);
    test::run_grids(1, 3, 2, [&](int, const gpu::EmuBlock& block) { kKernel(block, plan); });
    EXPECT_EQ(out, in);
    EXPECT_EQ(world.blocks_done(0), 0u);
    EXPECT_EQ(world.comm(0).counters.done, 5u);
    EXPECT_EQ(world.comm(0).counters.mesh_flag, 6u);
  }
}

}  // namespace
}  // namespace gpucoll
