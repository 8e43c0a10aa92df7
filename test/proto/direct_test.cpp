// The direct forms of the primitives alone, the test playing the peers on both sides; then two groups that talk.
#include "proto/direct.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include "each_case.h"
#include "proto/primitives.h"
#include "proto/primitives_ll.h"
#include "thread_block.h"
#include "world.h"

namespace gpucoll {
namespace {

using gpu::emu::ThreadBlock;
using proto::Bytes;
using proto::DirectSimple;
using proto::Fan;
using proto::Simple;
using Floats = proto::Family<proto::Sum<float>, proto::Avg<float>>;
enum Op : uint8_t { kSum, kAvg };
using Prims = proto::Primitives<Floats, ThreadBlock, DirectSimple, Fan<1, 2>>;

constexpr uint32_t kSlotBytes = 128;
const proto::ConnectionShape kShape = test::shape_of(kSlotBytes);
constexpr uint64_t kSlice = Simple<>::slice_bytes(kSlotBytes) / sizeof(float);  // 64 elements
constexpr uint64_t kCount = 100;                                                // two slices, the second shorter
constexpr uint64_t kFrom = 3, kTo = 5;                                          // where in input and output
constexpr int kPeers = 2;                                                       // that are sent to
constexpr float kUntouched = -1;

struct Case {
  const char* name;
  bool receives, lands, sends, reads, reads_output, writes, complete;
  std::function<void(Prims&)> run;
};
const Case kCases[] = {
    {"send", false, false, true, true, false, false, false, [](Prims& p) { p.direct_send(kFrom, kTo, kCount); }},
    {"send_from_output", false, false, true, false, true, false, false,
     [](Prims& p) { p.direct_send_from_output(kTo, kCount); }},
    {"copy_send", false, false, true, true, false, true, false,
     [](Prims& p) { p.direct_copy_send(kFrom, kTo, kCount); }},
    {"recv", true, true, false, false, false, true, false, [](Prims& p) { p.direct_recv(kTo, kCount); }},
    {"recv_copy_send", true, true, true, false, false, true, false,
     [](Prims& p) { p.direct_recv_copy_send(kTo, kCount); }},
    {"recv_reduce_copy_send", true, false, true, true, false, true, true,
     [](Prims& p) { p.direct_recv_reduce_copy_send(kFrom, kTo, kCount); }},
};

// What the peers do with direct stores. `from`: the slice at which a sender goes over to them, kSlots for never.
constexpr uint64_t kSlots = 2;
struct Peers {
  bool granted_here;  // by the operation, to the peer that sends to it
  uint64_t from;
  bool granted_there[kPeers];  // by the peers, before the operation begins
};

struct Bench {
  Bench(const Case& c, uint64_t first_step, const Peers& p) : test_case(c), peers(p), first(first_step) {
    for (size_t i = 0; i < input.size(); ++i) input[i] = static_cast<float>(i) * 4 + 8;
    if (c.reads_output)
      for (size_t i = 0; i < output.size(); ++i) output[i] = static_cast<float>(i) + 7;
    before = output;
    for (int i = 0; i < kPeers; ++i)
      if (p.granted_there[i]) grant(i, first);
  }
  void grant(int peer, uint64_t step, uint64_t bytes = 0) {
    proto::Grant* const grant = proto::grant_of(to[peer].sender.send);
    proto::store_relaxed(&grant->address, reinterpret_cast<uint64_t>(remote[peer].data()));
    proto::store_relaxed(&grant->bytes, bytes);
    proto::store_release(&grant->step, step);
  }
  static float sent_by_peer(uint64_t i) { return static_cast<float>(i * 8 + 1000); }

  // As a sender does: the slices from peers.from on go into the output, if the form lets them.
  void send_slice(uint64_t slice) {
    const bool direct = test_case.lands && slice >= peers.from;
    for (uint64_t i = slice * kSlice; i < std::min(kCount, (slice + 1) * kSlice); ++i) {
      if (direct)
        output[kTo + i] = sent_by_peer(i);
      else
        proto::store(slot(from, i), sent_by_peer(i));
    }
    if (direct && slice == peers.from)
      proto::store_relaxed(proto::direct_from_of(from.sender.receive), first + 2 * slice);
    proto::store_release(from.tail(), first + 2 * slice + 2);
  }
  void run(int threads, Op op = kSum) {
    proto::Ends<Fan<1, 2>> ends{};
    if (test_case.receives) ends.recv[0] = &from.receiver;
    for (int i = 0; i < kPeers && test_case.sends; ++i) ends.send[i] = &to[i].sender;
    auto* const granted = peers.granted_here ? reinterpret_cast<uint8_t*>(output.data()) : nullptr;
    test::run_block(threads, [&](const ThreadBlock& coop) {
      Prims prims(coop, ends, kShape, &latch, {input.data(), output.data(), granted, output_bytes}, {op, 4, 0});
      if (coop.rank() == 0) during(*this);
      test_case.run(prims);
      if (coop.rank() == 0) ok = prims.ok();
    });
  }
  uint8_t* slot(const test::Link& link, uint64_t i) const {
    const uint64_t step = first + i / kSlice * 2;
    return link.simple_slots() + step % proto::kSteps * kSlotBytes + i % kSlice * sizeof(float);
  }
  float value(uint64_t i, Op op) const {
    float sum = test_case.receives ? sent_by_peer(i) : 0;
    if (test_case.reads) sum += input[kFrom + i];
    if (test_case.reads_output) sum += before[kTo + i];
    return op == kAvg && test_case.complete ? sum / 4 : sum;
  }
  void expect_output(Op op) const {
    for (uint64_t i = 0; i < output.size(); ++i) {
      const bool inside = test_case.writes && i >= kTo && i < kTo + kCount;
      ASSERT_EQ(output[i], inside ? value(i - kTo, op) : before[i]) << "output " << i << ", op " << op;
    }
  }
  // Slices from `direct` on in the peer's output, those before in slots, and nothing else.
  void expect_sent(int peer, uint64_t direct, Op op) {
    test::Link& link = to[peer];
    for (uint64_t i = 0; i < kCount; ++i) {
      const bool reached = i / kSlice >= direct;
      ASSERT_EQ(remote[peer][kTo + i], reached ? value(i, op) : kUntouched) << "peer " << peer << ", " << i;
      ASSERT_EQ(proto::load<float>(slot(link, i)), reached ? 0.0f : value(i, op)) << "peer " << peer << ", " << i;
    }
    EXPECT_EQ(remote[peer][kTo - 1], kUntouched);
    EXPECT_EQ(remote[peer][kTo + kCount], kUntouched);
    EXPECT_EQ(proto::load_acquire(link.tail()), first + 4);
    EXPECT_EQ(link.sender.step, first + 4);
    EXPECT_EQ(*proto::direct_from_of(link.receiver.receive), direct < kSlots ? first + 2 * direct : 0u);
  }

  const Case& test_case;
  uint64_t output_bytes = 0;  // of this rank, as its collective has it
  const Peers peers;
  const uint64_t first;
  test::Link from{kShape, first}, to[kPeers] = {test::Link(kShape, first), test::Link(kShape, first)};
  proto::FaultLatch latch{};
  std::vector<float> input = std::vector<float>(128), output = std::vector<float>(128, kUntouched), before;
  std::vector<float> remote[kPeers] = {output, output};
  std::function<void(Bench&)> during = [](Bench&) {};  // on one thread, once what is granted is granted
  bool ok = false;
};

class EachDirect : public testing::TestWithParam<test::EachCase> {
 protected:
  const Case& test_case() const { return kCases[GetParam().which]; }
  int threads() const { return GetParam().threads; }
};

// Counters just below the wrap as well: nothing may be taken for news that is there from before.
constexpr uint64_t kFirstSteps[] = {0, 6, uint64_t{0} - 2, uint64_t{0} - 10};

TEST_P(EachDirect, MovesWhatItSaysWhereverDataLie) {
  const Peers all_peers[] = {{false, kSlots, {false, false}}, {true, kSlots, {true, false}},
                             {true, 0, {true, true}},         {true, 1, {false, true}},
                             {true, 0, {false, false}},       {false, kSlots, {true, true}}};
  for (uint64_t first : kFirstSteps) {
    for (const Peers& peers : all_peers) {
      for (Op op : {kSum, kAvg}) {
        SCOPED_TRACE(testing::Message() << "first step " << first << ", granted " << peers.granted_here
                                        << ", from slice " << peers.from << ", there " << peers.granted_there[0]
                                        << peers.granted_there[1]);
        Bench bench(test_case(), first, peers);
        if (test_case().receives) {
          bench.during = [](Bench& b) {
            for (uint64_t slice : {0, 1}) b.send_slice(slice);
          };
        }
        bench.run(threads(), op);
        EXPECT_TRUE(bench.ok);
        bench.expect_output(op);
        for (int i = 0; i < kPeers && test_case().sends; ++i)
          bench.expect_sent(i, peers.granted_there[i] ? 0 : kSlots, op);
        if (test_case().receives) {
          EXPECT_EQ(proto::load_acquire(bench.from.head()), first + 4);
          EXPECT_EQ(bench.from.receiver.step, first + 4);
        }
      }
    }
  }
}

// A grant that comes late counts from the next slice on.
TEST_P(EachDirect, GoesOverInTheMiddle) {
  if (!test_case().sends) GTEST_SKIP() << "sends nothing";
  Bench bench(test_case(), 6, {true, 1, {false, false}});
  bench.to[0].start_head(uint64_t{6} - 6);  // room for a slice only
  bench.during = [&](Bench& b) {
    if (b.test_case.receives)
      for (uint64_t slice : {0, 1}) b.send_slice(slice);
  };
  std::thread group([&] { bench.run(threads()); });
  for (int i = 0; i < 5000 && proto::load_acquire(bench.to[0].tail()) != 8; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  bench.grant(0, 6);
  proto::store_release(bench.to[0].head(), uint64_t{6});
  group.join();
  bench.expect_output(kSum);
  bench.expect_sent(0, 1, kSum);
  bench.expect_sent(1, kSlots, kSum);
}

// That of an earlier operation or a later one, for a message of another length, or of nothing.
TEST_P(EachDirect, TakesNoGrantThatIsNotForIt) {
  if (!test_case().sends) GTEST_SKIP() << "sends nothing";
  Bench bench(test_case(), 16, {true, 0, {false, false}});
  bench.grant(0, 8);
  bench.grant(1, 16, 4 * kCount);
  bench.during = [&](Bench& b) {
    if (b.test_case.receives)
      for (uint64_t slice : {0, 1}) b.send_slice(slice);
  };
  bench.run(threads());
  bench.expect_output(kSum);
  bench.expect_sent(0, kSlots, kSum);
  bench.expect_sent(1, kSlots, kSum);
}

// Nobody stores beyond what a rank has granted: where the ranks' collectives have other counts, data go through slots.
TEST_P(EachDirect, TakesNoGrantOfAnotherCount) {
  if (!test_case().sends) GTEST_SKIP() << "sends nothing";
  Bench bench(test_case(), 16, {false, kSlots, {false, false}});
  bench.output_bytes = 4 * kCount;
  bench.grant(0, 16, 4 * kCount);
  bench.grant(1, 16, 4 * kCount - 4);
  bench.during = [&](Bench& b) {
    if (b.test_case.receives)
      for (uint64_t slice : {0, 1}) b.send_slice(slice);
  };
  bench.run(threads());
  bench.expect_sent(0, 0, kSum);
  bench.expect_sent(1, kSlots, kSum);
}

// What an operation tells its sender, and when: nothing where it has nothing to grant.
TEST_P(EachDirect, GrantsItsOutput) {
  if (!test_case().receives) GTEST_SKIP() << "receives nothing";
  for (bool granted : {false, true}) {
    Bench bench(test_case(), 6, {granted, kSlots, {false, false}});
    *proto::direct_from_of(bench.from.receiver.receive) = 6;  // as if there had been an operation
    bench.during = [&](Bench& b) {
      const proto::Grant& grant = *proto::grant_of(b.from.sender.send);
      EXPECT_EQ(proto::load_acquire(&grant.step), granted ? 6u : 0u);
      EXPECT_EQ(proto::load_relaxed(&grant.address), granted ? reinterpret_cast<uint64_t>(b.output.data()) : 0u);
      EXPECT_EQ(proto::load_relaxed(&grant.bytes), 0u);
      for (uint64_t slice : {0, 1}) b.send_slice(slice);
    };
    bench.run(threads());
    bench.expect_output(kSum);
  }
}

TEST_P(EachDirect, LeavesWhenTheLatchIsSet) {
  Bench bench(test_case(), 0, {true, 0, {true, true}});
  for (test::Link& link : bench.to) link.start_head(uint64_t{0} - 8);
  std::thread group([&] { bench.run(threads()); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  proto::store_release(&bench.latch.abort, 1u);
  group.join();
  EXPECT_FALSE(bench.ok);
  EXPECT_EQ(bench.output, bench.before);
  for (const auto& remote : bench.remote) EXPECT_EQ(remote[kTo], kUntouched);
}

INSTANTIATE_TEST_SUITE_P(All, EachDirect, testing::ValuesIn(test::each_case(kCases)),
                         [](const auto& info) { return test::name_of(kCases, info.param); });

// One operation of a conversation: each side does as it likes.
struct Talk {
  uint64_t bytes, offset;
  bool grants, sends_direct, receives_direct, ll;
  bool awaits_grant = false;  // the sender looks, without any order, until the receiver has granted its output
};

class Conversation : public testing::TestWithParam<int> {
 protected:
  using Part = gpu::emu::ThreadBlockPart;

  // A sender and a receiver, operation after operation; where the data go is another place each time.
  void talk(const std::vector<Talk>& talks) {
    test::run_grids(2, 1, GetParam(), [&](int side, const gpu::EmuBlock& block) {
      const Part part = ThreadBlock(block).split(1);
      for (const Talk& t : talks) {
        if (side == 0) {
          send(part, t);
        } else {
          receive(part, t);
        }
      }
    });
  }
  template <class Protocol>
  void send_by(const Part& part, const Talk& t) {
    proto::Primitives<Bytes, Part, Protocol> prims(part, {{nullptr}, {&link_.sender}}, kShape, &latch_,
                                                   {data_.data(), nullptr}, {});
    for (uint64_t at = 0; at < t.bytes; at += kPiece)
      prims.direct_send(t.offset + at, at, std::min(kPiece, t.bytes - at));
  }
  template <class Protocol>
  void receive_by(const Part& part, const Talk& t) {
    uint8_t* const output = got_.data() + t.offset;
    {
      proto::Primitives<Bytes, Part, Protocol> prims(part, {{&link_.receiver}, {nullptr}}, kShape, &latch_,
                                                     {nullptr, output, t.grants ? output : nullptr}, {});
      for (uint64_t at = 0; at < t.bytes; at += kPiece) prims.direct_recv(at, std::min(kPiece, t.bytes - at));
    }
    sum_ += output[0];  // plain, by each thread: nobody writes here any more
    part.sync();        // before the next grant
  }
  void send(const Part& part, const Talk& t) {
    const uint64_t step = link_.sender.step;
    part.sync();  // before one of them opens the connection and goes on
    while (t.awaits_grant && proto::load_relaxed(&proto::grant_of(link_.sender.send)->step) != step)
      std::this_thread::yield();
    if (t.ll) return send_by<proto::Ll>(part, t);
    if (t.sends_direct) return send_by<DirectSimple>(part, t);
    send_by<Simple<>>(part, t);
  }
  void receive(const Part& part, const Talk& t) {
    if (t.ll) return receive_by<proto::Ll>(part, t);
    if (t.receives_direct) return receive_by<DirectSimple>(part, t);
    receive_by<Simple<>>(part, t);
  }
  void SetUp() override {
    for (size_t i = 0; i < data_.size(); ++i) data_[i] = static_cast<uint8_t>(i * 7 + i / 250 + 1);
  }

  static constexpr uint64_t kPiece = 512;
  test::Link link_{kShape, uint64_t{0} - 40};
  proto::FaultLatch latch_{};
  std::vector<uint8_t> data_ = std::vector<uint8_t>(400000), got_ = std::vector<uint8_t>(400000);
  std::atomic<uint64_t> sum_{0};
};

TEST_P(Conversation, EachSideDoesAsItLikes) {
  std::mt19937 random(7);
  const auto coin = [&] { return random() % 2 == 0; };
  std::vector<Talk> talks;
  uint64_t offset = 1;
  while (true) {
    const Talk t = {1 + random() % 3000, offset, coin(), coin(), coin(), random() % 8 == 0};
    if (offset + t.bytes + 8 > data_.size()) break;
    talks.push_back(t);
    offset += t.bytes + random() % 8;
  }
  std::vector<uint8_t> want(got_.size());
  for (const Talk& t : talks)
    std::copy_n(data_.begin() + static_cast<long>(t.offset), t.bytes, want.begin() + static_cast<long>(t.offset));
  talk(talks);
  EXPECT_EQ(latch_.abort, 0u);
  EXPECT_TRUE(got_ == want) << "the result differs";
  EXPECT_EQ(link_.sender.step, link_.receiver.step);
}

// What the receiver's group itself has written comes before the grant: short operations on the same output, which need
// no room, and so order nothing else. The sender waits for the grants: without them nothing would be shown.
TEST_P(Conversation, GrantsWhatItWroteBefore) {
  for (int round = 0; round < 40; ++round) {
    talk({{200, 3, false, true, true, false},
          {200, 3, true, true, true, false, true},
          {200, 3, true, true, true, false, true}});
    ASSERT_TRUE(std::equal(got_.begin() + 3, got_.begin() + 203, data_.begin() + 3)) << "the result differs";
  }
}
INSTANTIATE_TEST_SUITE_P(Threads, Conversation, testing::Values(1, 2, 3));

// Messages, which the sender may think longer than the output is.
class DirectMessages : public testing::TestWithParam<int> {
 protected:
  struct Told {
    uint64_t sends, receives;
  };
  void exchange(const std::vector<Told>& messages) {
    test::run_grids(2, 1, GetParam(), [&](int side, const gpu::EmuBlock& block) {
      const ThreadBlock coop(block);
      for (const Told& t : messages) {
        if (side == 0) {
          proto::Primitives<Bytes, ThreadBlock, DirectSimple, Fan<0, 1>> sender(coop, {{}, {&link_.sender}}, kShape,
                                                                                &latch_, {data_.data(), nullptr}, {});
          sender.direct_send_message(1, 2, t.sends, t.sends);
        } else {
          proto::Primitives<Bytes, ThreadBlock, DirectSimple, Fan<1, 0>> receiver(
              coop, {{&link_.receiver}, {}}, kShape, &latch_, {nullptr, got_.data(), got_.data(), t.receives}, {});
          receiver.direct_recv_message(2, t.receives, t.receives, 11);
          if (coop.rank() == 0 && receiver.ok()) expect_received(t.receives);
        }
        coop.sync();
      }
    });
  }
  void expect_received(uint64_t bytes) {
    for (uint64_t i = 0; i < bytes; ++i) ASSERT_EQ(got_[2 + i], data_[1 + i]) << i;
    ASSERT_EQ(got_[1], 0xee);
  }
  void SetUp() override {
    for (size_t i = 0; i < data_.size(); ++i) data_[i] = static_cast<uint8_t>(i * 7 + i / 250);
  }
  test::Link link_{kShape, uint64_t{0} - 5};
  proto::FaultLatch latch_{};
  std::vector<uint8_t> data_ = std::vector<uint8_t>(5000), got_ = std::vector<uint8_t>(5000, 0xee);
};

TEST_P(DirectMessages, OfAllSizes) {
  exchange({{4000, 4000}, {0, 0}, {1, 1}, {256, 256}, {0, 0}, {4001, 4001}});
  EXPECT_EQ(latch_.claimed, 0u);
}
TEST_P(DirectMessages, OfAnotherLengthAreReportedAndWriteNothing) {
  exchange({{16, 16}, {4000, 100}});
  EXPECT_EQ(latch_.kind, proto::kFaultSizes);
  EXPECT_EQ(latch_.sent_bytes, 4000u);
  EXPECT_EQ(latch_.expected_bytes, 100u);
  for (size_t i = 2 + 16; i < got_.size(); ++i) ASSERT_EQ(got_[i], 0xee) << i;
}
INSTANTIATE_TEST_SUITE_P(Threads, DirectMessages, testing::Values(1, 2, 3));

}  // namespace
}  // namespace gpucoll
