// Each primitive alone: what it reads, writes and waits for; the test plays the peers on both sides.
#include "proto/primitives.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "each_case.h"
#include "looks.h"
#include "thread_block.h"
#include "world.h"

namespace gpucoll {
namespace {

using gpu::emu::ThreadBlock;
using gpu::emu::ThreadBlockPart;
using proto::Bytes;
using proto::Fan;
using proto::Simple;
// The operations of the family, by place.
using Floats = proto::Family<proto::Sum<float>, proto::Avg<float>, proto::PreMulSum<float>>;
enum Op : uint8_t { kSum, kAvg, kPreMulSum };
using Prims = proto::Primitives<Floats, ThreadBlock, Simple<>, Fan<2, 2>>;

constexpr uint32_t kSlotBytes = 128;
const proto::ConnectionShape kShape = test::shape_of(kSlotBytes);
constexpr uint64_t kSlice = Simple<>::slice_bytes(kSlotBytes) / sizeof(float);  // 64 elements
constexpr uint64_t kCount = 100;                                                // two slices, the second shorter
constexpr uint64_t kFrom = 3, kTo = 5;                                          // where in input and output
constexpr int kMostPeers = 2;
constexpr float kScalar = 3, kRanks = 4;  // powers of two and small numbers: sums are exact

struct Case {
  const char* name;
  bool receives, sends, reads, writes, complete;
  int least_in, most_in;  // peers to receive from
  std::function<void(Prims&, uint64_t n)> run;
  bool keeps = false;  // what came, in the output
};
const Case kCases[] = {
    {"send", false, true, true, false, false, 0, 2, [](auto& p, uint64_t n) { p.send(kFrom, n); }},
    {"recv", true, false, false, true, false, 1, 1, [](auto& p, uint64_t n) { p.recv(kTo, n); }},
    {"copy_send", false, true, true, true, false, 0, 2, [](auto& p, uint64_t n) { p.copy_send(kFrom, kTo, n); }},
    {"recv_copy_send", true, true, false, true, false, 1, 1, [](auto& p, uint64_t n) { p.recv_copy_send(kTo, n); }},
    {"recv_reduce_copy", true, false, true, true, true, 0, 2,
     [](auto& p, uint64_t n) { p.recv_reduce_copy(kFrom, kTo, n); }},
    {"recv_reduce_send", true, true, true, false, false, 0, 2,
     [](auto& p, uint64_t n) { p.recv_reduce_send(kFrom, n); }},
    {"recv_reduce_copy_send", true, true, true, true, true, 0, 2,
     [](auto& p, uint64_t n) { p.recv_reduce_copy_send(kFrom, kTo, n); }},
    {"recv_copy_reduce_send", true, true, true, true, false, 1, 1,
     [](auto& p, uint64_t n) { p.recv_copy_reduce_send(kFrom, kTo, n); }, true},
};

// The operation under test, with connections on each side and buffers.
struct Bench {
  explicit Bench(uint64_t first_step, int recvs = kMostPeers, int sends = kMostPeers)
      : first(first_step), n_in(recvs), n_out(sends) {
    for (int i = 0; i < kMostPeers; ++i) {
      from.push_back(std::make_unique<test::Link>(kShape, first_step));
      to.push_back(std::make_unique<test::Link>(kShape, first_step));
    }
    for (size_t i = 0; i < input.size(); ++i) input[i] = static_cast<float>(i) * 4 + 8;
  }
  Bench(uint64_t first_step, const Case& c) : Bench(first_step, c.most_in) {}

  static float sent_by_peer(int peer, uint64_t i) { return static_cast<float>((i * 8 + 1000) << (5 * peer)); }
  // The peers fill what they send; publishing it is another step.
  void fill() {
    for (int peer = 0; peer < kMostPeers; ++peer) {
      for (uint64_t i = 0; i < kCount; ++i) proto::store(element(*from[at(peer)], i), sent_by_peer(peer, i));
    }
  }
  void publish(int peer, uint64_t steps) { proto::store_release(from[at(peer)]->tail(), first + steps); }
  void make_room(int peer, uint64_t steps) { proto::store_release(to[at(peer)]->head(), first + steps); }
  void start_room(int peer, uint64_t steps) { to[at(peer)]->start_head(first + steps); }
  uint64_t posted_tail(int peer) { return proto::load_acquire(to[at(peer)]->tail()) - first; }
  uint64_t posted_head(int peer) { return proto::load_acquire(from[at(peer)]->head()) - first; }

  void run(const Case& c, int threads, uint64_t n, Op op = kSum) {
    proto::Ends<Fan<2, 2>> ends{};
    for (int i = 0; i < n_in; ++i) ends.recv[i] = &from[at(i)]->receiver;
    for (int i = 0; i < n_out; ++i) ends.send[i] = &to[at(i)]->sender;
    const proto::Reduction reduction{
        op, op == kAvg ? static_cast<uint64_t>(kRanks) : __builtin_bit_cast(uint32_t, kScalar), 0};
    test::run_block(threads, [&](const ThreadBlock& coop) {
      Prims prims(coop, ends, kShape, &latch, {input.data(), output.data()}, reduction);
      c.run(prims, n);
      if (!prims.ok()) c.run(prims, n);  // does nothing any more, and so comes back
      if (coop.rank() == 0) ok = prims.ok();
    });
  }
  uint8_t* element(const test::Link& link, uint64_t i) const {
    const uint64_t step = first + i / kSlice * 2;
    return link.simple_slots() + step % proto::kSteps * kSlotBytes + i % kSlice * sizeof(float);
  }
  float value(const Case& c, uint64_t i, Op op) const {
    float sum = 0;
    for (int peer = 0; c.receives && peer < n_in; ++peer) sum += sent_by_peer(peer, i);
    if (c.reads) sum += input[kFrom + i] * (op == kPreMulSum ? kScalar : 1);
    return op == kAvg && c.complete ? sum / kRanks : sum;
  }
  float kept(const Case& c, uint64_t i, Op op) const { return c.keeps ? sent_by_peer(0, i) : value(c, i, op); }
  static size_t at(int peer) { return static_cast<size_t>(peer); }

  uint64_t first;
  int n_in, n_out;
  std::vector<std::unique_ptr<test::Link>> from, to;
  proto::FaultLatch latch{};
  std::vector<float> input = std::vector<float>(128), output = std::vector<float>(128, -1.0f);
  bool ok = false;
};

bool becomes(const std::function<uint64_t()>& now, uint64_t wanted) {
  for (int i = 0; i < 5000 && now() != wanted; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return now() == wanted;
}

class EachPrimitive : public testing::TestWithParam<test::EachCase> {
 protected:
  const Case& test_case() const { return kCases[GetParam().which]; }
  int threads() const { return GetParam().threads; }

  void expect_moved(Bench& bench, Op op) {
    const Case& c = test_case();
    EXPECT_TRUE(bench.ok);
    for (uint64_t i = 0; i < bench.output.size(); ++i) {
      const bool inside = c.writes && i >= kTo && i < kTo + kCount;
      ASSERT_EQ(bench.output[i], inside ? bench.kept(c, i - kTo, op) : -1.0f) << "output " << i << ", op " << op;
    }
    for (int peer = 0; peer < kMostPeers; ++peer) {
      const bool sends = c.sends && peer < bench.n_out, receives = c.receives && peer < bench.n_in;
      for (uint64_t i = 0; i < kCount; ++i) {
        const float want = sends ? bench.value(c, i, op) : 0.0f;
        ASSERT_EQ(proto::load<float>(bench.element(*bench.to[Bench::at(peer)], i)), want) << "sent " << i;
      }
      EXPECT_EQ(bench.posted_tail(peer), sends ? 4u : 0u);
      EXPECT_EQ(bench.posted_head(peer), receives ? 4u : 0u);
      EXPECT_EQ(bench.to[Bench::at(peer)]->sender.step - bench.first, sends ? 4u : 0u);
      EXPECT_EQ(bench.from[Bench::at(peer)]->receiver.step - bench.first, receives ? 4u : 0u);
    }
  }
};

TEST_P(EachPrimitive, MovesWhatItSaysAndPostsIt) {
  const Case& c = test_case();
  for (uint64_t first : {uint64_t{0}, uint64_t{6}, uint64_t{0} - 2}) {
    for (int recvs = c.least_in; recvs <= c.most_in; ++recvs) {
      for (int sends = 0; sends <= kMostPeers; ++sends) {
        for (Op op : {kSum, kAvg, kPreMulSum}) {
          SCOPED_TRACE(testing::Message() << recvs << " receives, " << sends << " sends, step " << first);
          Bench bench(first, recvs, sends);
          bench.fill();
          for (int peer = 0; peer < recvs; ++peer) bench.publish(peer, 4);
          bench.run(c, threads(), kCount, op);
          expect_moved(bench, op);
        }
      }
    }
  }
}

TEST_P(EachPrimitive, WaitsForDataOfEachPeer) {
  if (!test_case().receives) GTEST_SKIP() << "receives nothing";
  for (int late = 0; late < test_case().most_in; ++late) {
    Bench bench(0, test_case());
    bench.fill();
    for (int peer = 0; peer < kMostPeers; ++peer) bench.publish(peer, peer == late ? 3 : 4);  // two slices less a step
    std::thread group([&] { bench.run(test_case(), threads(), kCount); });
    EXPECT_TRUE(becomes([&] { return bench.posted_head(late); }, 2));
    test::let_them_look();
    EXPECT_EQ(bench.posted_head(late), 2u) << "went on without data";
    bench.publish(late, 4);
    group.join();
    EXPECT_EQ(bench.posted_head(late), 4u);
  }
}

TEST_P(EachPrimitive, WaitsForRoomTowardsEachPeer) {
  if (!test_case().sends) GTEST_SKIP() << "sends nothing";
  for (int late = 0; late < kMostPeers; ++late) {
    Bench bench(0, test_case());
    bench.fill();
    for (int peer = 0; peer < kMostPeers; ++peer) bench.publish(peer, 4);
    bench.start_room(late, uint64_t{0} - 5);  // slots of five steps are still in use: room for one slice only
    std::thread group([&] { bench.run(test_case(), threads(), kCount); });
    EXPECT_TRUE(becomes([&] { return bench.posted_tail(late); }, 2));
    test::let_them_look();
    EXPECT_EQ(bench.posted_tail(late), 2u) << "overwrote a slot in use";
    bench.make_room(late, uint64_t{0} - 4);
    group.join();
    EXPECT_EQ(bench.posted_tail(late), 4u);
  }
}

TEST_P(EachPrimitive, LeavesWhenTheLatchIsSet) {
  Bench bench(0, test_case());
  for (int peer = 0; peer < kMostPeers; ++peer) bench.start_room(peer, uint64_t{0} - 8);
  const bool waits = test_case().receives || test_case().sends;
  std::thread group([&] { bench.run(test_case(), threads(), kCount); });
  if (waits) test::let_them_look();
  proto::store_release(&bench.latch.abort, 1u);
  group.join();
  EXPECT_EQ(bench.ok, !waits);
  for (int peer = 0; peer < kMostPeers; ++peer) EXPECT_EQ(bench.posted_tail(peer) + bench.posted_head(peer), 0u);
  for (float value : bench.output) EXPECT_EQ(value, -1.0f);
}

TEST_P(EachPrimitive, DoesNothingForNoElements) {
  Bench bench(0, test_case());
  for (int peer = 0; peer < kMostPeers; ++peer)
    bench.start_room(peer, uint64_t{0} - 8);  // who waited would wait for ever
  bench.run(test_case(), threads(), 0);
  EXPECT_TRUE(bench.ok);
  for (int peer = 0; peer < kMostPeers; ++peer) EXPECT_EQ(bench.posted_tail(peer) + bench.posted_head(peer), 0u);
}

INSTANTIATE_TEST_SUITE_P(All, EachPrimitive, testing::ValuesIn(test::each_case(kCases)),
                         [](const auto& info) { return test::name_of(kCases, info.param); });

TEST(SendFromOutput, SendsWhatIsThereWithoutHooks) {
  Bench bench(0);
  for (size_t i = 0; i < bench.output.size(); ++i) bench.output[i] = static_cast<float>(i) + 7;
  const Case c{"send_from_output",
               false,
               true,
               false,
               false,
               false,
               0,
               2,
               [](auto& p, uint64_t n) { p.send_from_output(kTo, n); }};
  bench.run(c, 3, kCount, kPreMulSum);
  for (int peer = 0; peer < kMostPeers; ++peer) {
    for (uint64_t i = 0; i < kCount; ++i) {
      ASSERT_EQ(proto::load<float>(bench.element(*bench.to[Bench::at(peer)], i)), bench.output[kTo + i]);
    }
  }
}

// Sender and receiver of one connection, operations of many sizes; slices of one and of two steps in turn, so that
// the longer ones find the step at odd numbers.
template <class Protocol>
void talk(test::Link& link, int threads, const std::vector<float>& data, std::vector<float>& got) {
  proto::FaultLatch latch{};
  test::run_grids(2, 1, threads, [&](int side, const gpu::EmuBlock& block) {
    const bool sends = side == 0;
    const proto::Ends<Fan<1, 1>> ends{{sends ? nullptr : &link.receiver}, {sends ? &link.sender : nullptr}};
    proto::Primitives<Floats, ThreadBlock, Protocol> prims(ThreadBlock(block), ends, kShape, &latch,
                                                           {data.data(), got.data()}, {});
    for (uint64_t n = 0, at = 0; at + n <= data.size(); at += n, n += 7) {
      if (sends) {
        prims.send(at, n);
      } else {
        prims.recv(at, n);
      }
    }
  });
}

class Conversation : public testing::TestWithParam<int> {};

TEST_P(Conversation, ProtocolsMayAlternateOnAConnection) {
  std::vector<float> data(3000);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(i + 1);
  test::Link link(kShape, uint64_t{0} - 9);
  for (int round = 0; round < 3; ++round) {
    std::vector<float> got(data.size()), want = data;
    if (round % 2 == 0) {
      talk<Simple<1, 1>>(link, GetParam(), data, got);
    } else {
      talk<Simple<2, 2>>(link, GetParam(), data, got);
    }
    uint64_t moved = 0;
    for (uint64_t n = 0; moved + n <= data.size(); n += 7) moved += n;
    std::fill(want.begin() + static_cast<long>(moved), want.end(), 0.0f);
    EXPECT_EQ(got, want);
    EXPECT_EQ(link.sender.step, link.receiver.step);
  }
}
INSTANTIATE_TEST_SUITE_P(Threads, Conversation, testing::Values(1, 2, 3));

// Messages between two blocks, each of which has a part that sends and one that receives, side by side.
class Messages : public testing::TestWithParam<int> {
 protected:
  using Sender = proto::Primitives<Bytes, ThreadBlockPart, Simple<>, Fan<0, 1>>;
  using Receiver = proto::Primitives<Bytes, ThreadBlockPart, Simple<>, Fan<1, 0>>;
  struct Told {
    uint64_t sends, receives;
  };
  static constexpr int32_t kPeer[2] = {11, 22};

  // Each side's sends and receives, one after another. REQUIRES: as many of either on both sides.
  void exchange(const std::vector<Told>& left, const std::vector<Told>& right) {
    const std::vector<Told>* const told[2] = {&left, &right};
    test::run_grids(2, 1, GetParam(), [&](int side, const gpu::EmuBlock& block) {
      const ThreadBlockPart part = ThreadBlock(block).split(2);
      proto::Connector* const out = &links_[side]->sender;
      proto::Connector* const in = &links_[1 - side]->receiver;
      for (const Told& message : *told[side]) {
        const proto::Buffers buffers{data_.data(), got_[side].data() + 3};
        if (part.group() == 0) {
          Sender(part, {{}, {out}}, kShape, &latch_, buffers, {}).send_message(1, message.sends, message.sends);
        } else {
          Receiver receiver(part, {{in}, {}}, kShape, &latch_, buffers, {});
          receiver.recv_message(0, message.receives, message.receives, kPeer[side]);
          if (part.rank() == 0) ok_[side] = receiver.ok();
        }
      }
    });
  }
  void SetUp() override {
    for (size_t i = 0; i < data_.size(); ++i) data_[i] = static_cast<uint8_t>(i * 7 + i / 250);
  }

  std::unique_ptr<test::Link> links_[2] = {std::make_unique<test::Link>(kShape, uint64_t{0} - 5),
                                           std::make_unique<test::Link>(kShape, 3)};
  proto::FaultLatch latch_{};
  std::vector<uint8_t> data_ = std::vector<uint8_t>(5000), fresh_ = std::vector<uint8_t>(5000, 0xee);
  std::vector<uint8_t> got_[2] = {fresh_, fresh_};
  bool ok_[2] = {false, false};
};

TEST_P(Messages, GoBothWaysSideBySide) {
  exchange({{4000, 17}, {0, 256}, {1, 0}, {300, 4001}}, {{17, 4000}, {256, 0}, {0, 1}, {4001, 300}});
  EXPECT_TRUE(ok_[0] && ok_[1]);
  EXPECT_EQ(latch_.claimed, 0u);
  for (size_t i = 0; i < 4001; ++i) ASSERT_EQ(got_[0][3 + i], data_[1 + i]) << i;
  for (size_t i = 0; i < 4000; ++i) ASSERT_EQ(got_[1][3 + i], data_[1 + i]) << i;
  EXPECT_EQ(got_[0][4004], fresh_[0]);
  EXPECT_EQ(got_[1][4003], fresh_[0]);
  EXPECT_EQ(got_[1][2], fresh_[0]);
  // The note is that of the step that the ends had, 3, though slices start at even steps.
  EXPECT_EQ(links_[0]->sender.step, links_[0]->receiver.step);
  uint64_t bytes;
  EXPECT_TRUE(proto::find_note(links_[1]->receiver.receive, 3, bytes) && bytes == 17);
}

TEST_P(Messages, OfAnotherLengthAreReported) {
  exchange({{100, 8}}, {{8, 99}});
  EXPECT_FALSE(ok_[1]);
  EXPECT_EQ(latch_.kind, proto::kFaultSizes);
  EXPECT_EQ(latch_.abort, 1u);
  EXPECT_EQ(latch_.peer, kPeer[1]);
  EXPECT_EQ(latch_.sent_bytes, 100u);
  EXPECT_EQ(latch_.expected_bytes, 99u);
}

TEST_P(Messages, OfAnotherLengthLeaveNobodyWaiting) {
  exchange({{4000, 300}}, {{0, 0}});  // more than the buffer holds; and much less than is awaited
  EXPECT_FALSE(ok_[0] && ok_[1]);
  EXPECT_EQ(latch_.abort, 1u);
}

// A length of more than 32 bits, and a note of which only a word has come, or that is of an earlier message.
TEST(Notes, TellOfTheirOwnArrival) {
  test::Link link(kShape);
  uint64_t bytes = 0;
  const uint64_t length = 0x123456789abcdef;
  EXPECT_FALSE(proto::find_note(link.receiver.receive, 3, bytes));
  proto::post_note(link.sender.receive, 3, length);
  EXPECT_TRUE(proto::find_note(link.receiver.receive, 3, bytes));
  EXPECT_EQ(bytes, length);
  EXPECT_FALSE(proto::find_note(link.receiver.receive, 3 + proto::kSteps, bytes));
  proto::Note* const note = link.note(3);
  for (uint64_t* word : {&note->low, &note->high}) {
    const uint64_t whole = *word;
    *word = 0;
    EXPECT_FALSE(proto::find_note(link.receiver.receive, 3, bytes));
    *word = whole;
  }
}

// As a sender in another protocol does: a note, and no tail.
TEST_P(Messages, AreComparedBeforeTheirDataCome) {
  proto::post_note(links_[1]->sender.receive, 3, 400);
  test::run_grids(1, 1, GetParam(), [&](int, const gpu::EmuBlock& block) {
    const ThreadBlockPart part = ThreadBlock(block).split(1);
    Receiver receiver(part, {{&links_[1]->receiver}, {}}, kShape, &latch_, {nullptr, got_[0].data()}, {});
    receiver.recv_message(0, 40, 40, 5);
    if (part.rank() == 0) ok_[0] = receiver.ok();
  });
  EXPECT_FALSE(ok_[0]);
  EXPECT_EQ(latch_.kind, proto::kFaultSizes);
  EXPECT_EQ(latch_.peer, 5);
  EXPECT_EQ(got_[0], fresh_) << "received something";
}

TEST_P(Messages, OfNothingWaitForEachOther) {
  std::thread receiver([&] {
    test::run_grids(1, 1, GetParam(), [&](int, const gpu::EmuBlock& block) {
      const ThreadBlockPart part = ThreadBlock(block).split(1);
      Receiver(part, {{&links_[1]->receiver}, {}}, kShape, &latch_, {nullptr, nullptr}, {}).recv_message(0, 0, 0, 5);
    });
  });
  test::let_them_look();
  EXPECT_EQ(proto::load_acquire(links_[1]->head()), 3u) << "went on without the message";
  proto::post_note(links_[1]->sender.receive, 3, 0);
  proto::store_release(links_[1]->tail(), uint64_t{6});
  receiver.join();
  EXPECT_EQ(proto::load_acquire(links_[1]->head()), 6u);
  EXPECT_EQ(latch_.abort, 0u);
}
INSTANTIATE_TEST_SUITE_P(Threads, Messages, testing::Values(2, 3));

TEST(Groups, AreRunsOfWholeWarps) {
  for (int size = proto::kWarp; size <= 40; ++size) {
    const int warps = size / proto::kWarp;
    for (int n = 1; n <= warps; ++n) {
      int group = 0, first = 0;
      for (int rank = 0; rank < size; ++rank) {
        const proto::WarpRun run = proto::warp_run(rank, size, n);
        if (run.group != group) {
          ASSERT_EQ(run.group, group + 1);
          ASSERT_EQ(rank, first + proto::warp_run(first, size, n).size);
          group = run.group;
          first = rank;
        }
        ASSERT_EQ(run.first, first);
        ASSERT_EQ(first, group * warps / n * proto::kWarp);
      }
      ASSERT_EQ(group, n - 1);
      ASSERT_EQ(first + proto::warp_run(size - 1, size, n).size, size);
    }
  }
}

// Each group meets alone, at its own pace; then the whole, and other groups.
TEST(Groups, HaveBarriersOfTheirOwn) {
  constexpr int kThreads = 6;
  test::run_grids(1, 1, kThreads, [&](int, const gpu::EmuBlock& block) {
    const ThreadBlock coop(block);
    int* const counts = static_cast<int*>(block.shared);
    if (coop.rank() == 0) std::fill(counts, counts + kThreads, 0);
    for (int n : {2, 3, 1, 6, 4}) {
      coop.sync();
      const ThreadBlockPart part = coop.split(n);
      for (int round = 0; round < 50 * (1 + part.group()); ++round) {
        part.sync();
        if (part.rank() == round % part.size()) ++counts[part.group()];  // plain: the barriers order it
        EXPECT_EQ(part.any(part.rank() == 0 && round % 3 == 0), round % 3 == 0);
      }
      part.sync();
      EXPECT_EQ(counts[part.group()] % 50, 0);
      coop.sync();
      if (coop.rank() == 0) std::fill(counts, counts + kThreads, 0);
    }
  });
}

// A part's lead meets while the rest of the part waits for all.
TEST(Groups, HaveLeadsThatMeetAlone) {
  constexpr int kThreads = 6, kRounds = 50;
  test::run_grids(1, 1, kThreads, [&](int, const gpu::EmuBlock& block) {
    const ThreadBlock coop(block);
    int* const counts = static_cast<int*>(block.shared);
    if (coop.rank() == 0) std::fill(counts, counts + kThreads, 0);
    coop.sync();
    for (int n : {1, 2}) {
      const ThreadBlockPart part = coop.split(n);
      const ThreadBlockPart lead = part.lead(part.size() - 1);
      const int before = counts[part.group()];
      part.sync();
      for (int round = 0; part.rank() < lead.size() && round < kRounds; ++round) {
        lead.sync();
        if (lead.rank() == round % lead.size()) ++counts[part.group()];  // plain: the barriers order it
        EXPECT_EQ(lead.any(lead.rank() == 0 && round % 3 == 0), round % 3 == 0);
      }
      EXPECT_TRUE(part.any(part.rank() == part.size() - 1));
      EXPECT_EQ(counts[part.group()], before + kRounds);
      coop.sync();
    }
    EXPECT_FALSE(coop.lead(kThreads).any(false));
  });
}

TEST(SimpleCut, IsAWholeNumberOfLinesAndFitsASlice) {
  for (uint64_t slot : {128u, 384u, 32768u, 524288u}) {
    for (uint64_t bytes = 1; bytes <= 2 * Simple<>::chunk_bytes(slot); bytes += 1 + bytes / 3) {
      const uint64_t cut = Simple<>::cut(bytes, slot);
      EXPECT_EQ(cut % 128, 0u);
      EXPECT_GT(cut, 0u);
      EXPECT_LE(cut, Simple<>::slice_bytes(slot));
      if (bytes <= Simple<>::chunk_bytes(slot)) {
        EXPECT_LE((bytes + cut - 1) / cut, 2u) << bytes;
      }
    }
  }
}

}  // namespace
}  // namespace gpucoll
