// Links over several RDMA devices of which some fail, on the library of fake_verbs.cpp: all slices come once and in
// order, whatever was under way.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "base/observe/counters.h"
#include "base/params.h"
#include "fake_verbs.h"
#include "link_kernels.h"
#include "net/verbs/devices.h"

using namespace gpucoll;
using namespace gpucoll::net;
using namespace gpucoll_test;

namespace {

constexpr int kDevices = 4, kTrials = 2;  // messages of a device: one of each end
constexpr FakeVerbs::Fault kFaults[] = {FakeVerbs::lost, FakeVerbs::unacknowledged, FakeVerbs::late};

class VerbsFailover : public testing::Test {
 protected:
  void SetUp() override {
    fake = open_fake_verbs(params().verbs_library.c_str());
    ASSERT_NE(fake, nullptr) << dlerror();
    fake->devices = kDevices;
  }
  void TearDown() override {
    for (int i = 0; i < kDevices; ++i) heal(i);
    ASSERT_TRUE(set_param("network_failover", "true", "test"));
    EXPECT_EQ(fake->violations, 0);
  }
  void heal(int device) {
    fake->silent[device] = false;
    fake->sends_until_fault[device] = -1;
  }
  // Nobody acknowledges the message behind so many of a link's.
  void break_at(int device, int messages, FakeVerbs::Fault fault) {
    fake->fault[device] = fault;
    fake->sends_until_fault[device] = kTrials + messages;
  }
  Pair connected() { return connect_pair(verbs_transport(), shape, memory); }
  Status carry(int n_slices) {
    Pair pair = connected();
    return carry_over(pair, shape, n_slices);
  }
  // Carries slices on a lane of device 0, which loses them all. The receiving end tells where the lane goes on over
  // another device, which fails, and tells it once more before the sending end looks. REQUIRES: that order of devices.
  void move_twice(int lane, int second) {
    const LinkShape many = {12, proto::connection_shape(4096)};
    const std::vector<Slice> slices(kSteps, {1, 8});
    const uint64_t before = failovers();
    Pair pair = connect_pair(verbs_transport(), many, memory);
    fake->fault[0] = FakeVerbs::lost;
    fake->sends_until_fault[0] = 0;
    send_slices(pair.sender->connector(lane), lane, slices, many.slots.simple);
    await([&] { return pair.sender->progress() && failovers() == before + 1; });
    fake->fault[second] = FakeVerbs::unacknowledged;
    fake->sends_until_fault[second] = 0;
    await([&] { return pair.receiver->progress() && failovers() == before + 3; });
    const proto::Connector received = pair.receiver->connector(lane);
    Status broken;
    await([&] {
      auto moved = pair.sender->progress();
      if (!moved && broken) broken = std::move(moved).status();
      EXPECT_TRUE(pair.receiver->progress());
      return !broken ||
             __atomic_load_n(at<uint64_t>(received.receive, ReceiveBlock::kTailOffset), __ATOMIC_ACQUIRE) == kSteps;
    });
    ASSERT_TRUE(broken) << broken.what();
    EXPECT_EQ(receive_slices(received, lane, slices, many.slots.simple), 0u);
  }
  static uint64_t failovers() { return counter_value(static_cast<size_t>(Counter::network_failovers)); }

  const LinkShape shape = {6, proto::connection_shape(4096)};
  HostMemoryPort memory;
  FakeVerbs* fake = nullptr;
};

bool says(const Status& status, const char* text) { return std::string(status.what()).find(text) != std::string::npos; }

}  // namespace

TEST_F(VerbsFailover, AMessageFailsAtAnyPlace) {
  for (const FakeVerbs::Fault fault : kFaults)
    for (int messages = 0; messages < 24; ++messages) {
      const uint64_t before = failovers();
      break_at(1, messages, fault);
      const Status carried = carry(24);
      EXPECT_TRUE(carried) << "fault " << fault << " at " << messages << ": " << carried.what();
      EXPECT_EQ(failovers(), before + 2);  // of both ends
    }
}

// Another device fails while the ends tell each other that the first one has.
TEST_F(VerbsFailover, AnotherDeviceFailsMeanwhile) {
  for (const FakeVerbs::Fault fault : kFaults)
    for (int messages = 0; messages < 12; ++messages) {
      break_at(0, 4, fault);
      break_at(1, messages, fault);
      break_at(2, 2 * messages, fault);
      const Status carried = carry(24);
      EXPECT_TRUE(carried) << "fault " << fault << " at " << messages << ": " << carried.what();
    }
}

TEST_F(VerbsFailover, AllButOneDeviceFailAtRandom) {
  std::mt19937 random(61);
  for (int round = 0; round < 60; ++round) {
    const int left = static_cast<int>(random() % kDevices);
    for (int i = 0; i < kDevices; ++i)
      if (i == left)
        heal(i);
      else
        break_at(i, static_cast<int>(random() % 120), kFaults[random() % std::size(kFaults)]);
    const Status carried = carry(60);
    EXPECT_TRUE(carried) << "round " << round << ": " << carried.what();
  }
}

TEST_F(VerbsFailover, NotesAreSentAgainOfALaneThatMovesTwice) { move_twice(0, 1); }

// The sending end sees the later notice first.
TEST_F(VerbsFailover, NoNoticeIsTakenBehindALaterOne) { move_twice(8, 3); }

TEST_F(VerbsFailover, NothingLateComesIntoASlot) {
  const std::vector<Slice> slices(1, {1, 8});
  Pair pair = connected();
  const proto::Connector received = pair.receiver->connector(0);
  fake->holds_late = true;
  fake->fault[0] = FakeVerbs::late;
  fake->sends_until_fault[0] = 0;  // the slice: its note is as the memory is, and not sent
  send_slices(pair.sender->connector(0), 0, slices, shape.slots.simple);
  await([&] {
    return pair.sender->progress() && pair.receiver->progress() &&
           __atomic_load_n(at<uint64_t>(received.receive, ReceiveBlock::kTailOffset), __ATOMIC_ACQUIRE) == 1;
  });
  EXPECT_EQ(receive_slices(received, 0, slices, shape.slots.simple), 0u);
  uint8_t* const slot = received.receive + ReceiveBlock::kSlotsOffset;
  constexpr uint8_t kNext = 0xab;  // what the slot holds then
  slot[0] = kNext;
  fake->holds_late = false;
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(pair.sender->progress() && pair.receiver->progress());
  EXPECT_EQ(slot[0], kNext);
}

// No later head tells it, either.
TEST_F(VerbsFailover, AHeadThatWasLostIsToldAgain) {
  constexpr int kLane = 4, kRounds = 1000;  // the lane is another one of device 0
  const std::vector<Slice> slices(kSteps, {1, 3});
  for (const FakeVerbs::Fault fault : kFaults) {
    Pair pair = connected();
    const proto::Connector sent = pair.sender->connector(kLane), received = pair.receiver->connector(kLane);
    send_slices(sent, kLane, slices, shape.slots.simple);
    await([&] {
      return pair.sender->progress() && pair.receiver->progress() &&
             __atomic_load_n(at<uint64_t>(received.receive, ReceiveBlock::kTailOffset), __ATOMIC_ACQUIRE) == kSteps;
    });
    fake->fault[0] = fault;
    fake->sends_until_fault[0] = 0;
    EXPECT_EQ(receive_slices(received, kLane, slices, shape.slots.simple), 0u);
    for (int i = 0; i < kRounds; ++i) EXPECT_TRUE(pair.receiver->progress() && pair.sender->progress());
    EXPECT_EQ(__atomic_load_n(at<uint64_t>(sent.send, proto::SendBlock::kHeadOffset), __ATOMIC_ACQUIRE), kSteps);
  }
}

TEST_F(VerbsFailover, BothEndsFindItAtOnce) {
  Pair pair = connected();
  fake->silent[0] = fake->silent[2] = true;
  const Status carried = carry_over(pair, shape, 60);
  EXPECT_TRUE(carried) << carried.what();
}

TEST_F(VerbsFailover, TheLastErrorNamesAllDevices) {
  Pair pair = connected();
  for (int i = 0; i < kDevices; ++i) fake->silent[i] = true;
  const Status carried = carry_over(pair, shape, 10);
  EXPECT_EQ(carried.code(), Code::remote);
  EXPECT_TRUE(says(carried, "; before, the connection had lost ")) << carried.what();
  for (const char* device : {"fake_0, port 1", "fake_1, port 1", "fake_2, port 1", "fake_3, port 1"})
    EXPECT_TRUE(says(carried, device)) << device << ": " << carried.what();
}

// Kernels go on for a while after the last device has failed.
TEST_F(VerbsFailover, AFailureOfTheLastDeviceStays) {
  const std::vector<Slice> slices(kSteps, {1, 8});
  Pair pair = connected();
  const proto::Connector received = pair.receiver->connector(0);
  const auto drain = [&](uint64_t steps) {
    __atomic_store_n(at<uint64_t>(received.send, proto::SendBlock::kHeadOffset), steps, __ATOMIC_RELEASE);
  };
  send_slices(pair.sender->connector(0), 0, slices, shape.slots.simple);
  await([&] {
    return pair.sender->progress() && pair.receiver->progress() &&
           __atomic_load_n(at<uint64_t>(received.receive, ReceiveBlock::kTailOffset), __ATOMIC_ACQUIRE) == kSteps;
  });
  for (int i = 0; i < kDevices; ++i) fake->silent[i] = true;
  for (int lane = 1; lane < shape.lanes; ++lane)
    send_slices(pair.sender->connector(lane), lane, slices, shape.slots.simple);
  drain(1);
  for (LinkEnd* const end : {pair.sender.get(), pair.receiver.get()}) {
    Status why;
    await([&] {
      if (auto moved = end->progress(); !moved && why) why = std::move(moved).status();
      return !why;
    });
    drain(2);
    for (int i = 0; i < 3; ++i) ASSERT_STREQ(end->progress().status().what(), why.what());
  }
}

// Its device might write into slots later.
TEST_F(VerbsFailover, AQueuePairThatStaysEndsTheLink) {
  Pair pair = connected();
  fake->keeps_pairs[1] = true;
  fake->silent[1] = true;
  const Status carried = carry_over(pair, shape, 24);
  fake->keeps_pairs[1] = false;
  EXPECT_TRUE(says(carried, "does not answer fake_1, port 1")) << carried.what();
  EXPECT_TRUE(says(carried, "; fake_1, port 1 keeps its queue pair: ")) << carried.what();
}

TEST_F(VerbsFailover, BothEndsMustAllowIt) {
  for (const bool sends : {false, true}) {
    ASSERT_TRUE(set_param("network_failover", sends ? "true" : "false", "test"));
    auto sender = verbs_transport().make_end(Side::send, shape, memory);
    ASSERT_TRUE(set_param("network_failover", sends ? "false" : "true", "test"));
    auto receiver = verbs_transport().make_end(Side::receive, shape, memory);
    ASSERT_TRUE(sender && receiver);
    Pair pair = {*std::move(sender), *std::move(receiver)};
    ASSERT_TRUE(set_param("network_failover", "true", "test"));
    connect_ends(pair);
    fake->silent[1] = true;
    const Status carried = carry_over(pair, shape, 10);
    EXPECT_TRUE(says(carried, "the other side's device does not answer fake_1, port 1")) << carried.what();
    EXPECT_FALSE(says(carried, "before")) << carried.what();
    heal(1);
  }
}
