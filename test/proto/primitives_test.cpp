// Each primitive alone: what it reads, writes and waits for; the test plays the peers on both sides.
#include "proto/primitives.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "crew.h"
#include "world.h"

namespace gpucoll {
namespace {

using gpu::emu::Crew;
using proto::Simple;
template <class Protocol>
using Prims = proto::Primitives<proto::Sum<float>, Crew, Protocol>;

constexpr uint32_t kSlotBytes = 128;
constexpr uint64_t kSlice = Simple<>::slice_bytes(kSlotBytes) / sizeof(float);  // 64 elements
constexpr uint64_t kCount = 100;                                                // two slices, the second shorter
constexpr uint64_t kFrom = 3, kTo = 5;                                          // where in input and output

struct Case {
  const char* name;
  bool receives, sends, reads, writes;
  std::function<void(Prims<Simple<>>&, uint64_t n)> run;
};
const Case kCases[] = {
    {"send", false, true, true, false, [](auto& p, uint64_t n) { p.send(kFrom, n); }},
    {"recv", true, false, false, true, [](auto& p, uint64_t n) { p.recv(kTo, n); }},
    {"copy_send", false, true, true, true, [](auto& p, uint64_t n) { p.copy_send(kFrom, kTo, n); }},
    {"recv_copy_send", true, true, false, true, [](auto& p, uint64_t n) { p.recv_copy_send(kTo, n); }},
    {"recv_reduce_copy", true, false, true, true, [](auto& p, uint64_t n) { p.recv_reduce_copy(kFrom, kTo, n); }},
    {"recv_reduce_send", true, true, true, false, [](auto& p, uint64_t n) { p.recv_reduce_send(kFrom, n); }},
    {"recv_reduce_copy_send", true, true, true, true,
     [](auto& p, uint64_t n) { p.recv_reduce_copy_send(kFrom, kTo, n); }},
};

// The operation under test, with a connection on each side and buffers.
struct Bench {
  explicit Bench(uint64_t first_step) : first(first_step), from(kSlotBytes, first_step), to(kSlotBytes, first_step) {
    for (size_t i = 0; i < input.size(); ++i) input[i] = static_cast<float>(i) * 3 + 1;
  }
  static float sent_by_peer(uint64_t i) { return static_cast<float>(i) * 5 + 1000; }
  // The previous rank fills what it sends; publishing it is another step.
  void fill() {
    for (uint64_t i = 0; i < kCount; ++i) proto::store(element(from.receiver, i), sent_by_peer(i));
  }
  void publish(uint64_t steps) { proto::store_release(from.tail(), first + steps); }
  void make_room(uint64_t steps) { proto::store_release(to.head(), first + steps); }
  uint64_t posted_tail() { return proto::load_acquire(to.tail()) - first; }
  uint64_t posted_head() { return proto::load_acquire(from.head()) - first; }

  void run(const Case& c, int threads, uint64_t n) {
    test::run_block(threads, [&](const Crew& crew) {
      Prims<Simple<>> prims(crew, c.receives ? &from.receiver : nullptr, c.sends ? &to.sender : nullptr, kSlotBytes,
                            &latch, input.data(), output.data());
      c.run(prims, n);
      if (!prims.ok()) c.run(prims, n);  // does nothing any more, and so comes back
      if (crew.rank() == 0) ok = prims.ok();
    });
  }
  uint8_t* element(const proto::Connector& end, uint64_t i) const {
    const uint64_t step = first + i / kSlice * 2;
    return end.slots + step % proto::kSteps * kSlotBytes + i % kSlice * sizeof(float);
  }
  float value(const Case& c, uint64_t i) const {
    return (c.receives ? sent_by_peer(i) : 0) + (c.reads ? input[kFrom + i] : 0);
  }

  uint64_t first;
  test::Link from, to;
  proto::FaultLatch latch{0};
  std::vector<float> input = std::vector<float>(128), output = std::vector<float>(128, -1.0f);
  bool ok = false;
};

bool becomes(const std::function<uint64_t()>& now, uint64_t wanted) {
  for (int i = 0; i < 5000 && now() != wanted; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return now() == wanted;
}
void give_it_a_chance() { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }

struct Parameter {
  int which, threads;
};
class EachPrimitive : public testing::TestWithParam<Parameter> {
 protected:
  const Case& test_case() const { return kCases[GetParam().which]; }
  int threads() const { return GetParam().threads; }
};

TEST_P(EachPrimitive, MovesWhatItSaysAndPostsIt) {
  const Case& c = test_case();
  for (uint64_t first : {uint64_t{0}, uint64_t{6}, uint64_t{0} - 2}) {
    Bench bench(first);
    bench.fill();
    bench.publish(4);
    bench.run(c, threads(), kCount);
    EXPECT_TRUE(bench.ok);
    for (uint64_t i = 0; i < bench.output.size(); ++i) {
      const bool inside = c.writes && i >= kTo && i < kTo + kCount;
      ASSERT_EQ(bench.output[i], inside ? bench.value(c, i - kTo) : -1.0f) << "output " << i;
    }
    for (uint64_t i = 0; c.sends && i < kCount; ++i) {
      ASSERT_EQ(proto::load<float>(bench.element(bench.to.receiver, i)), bench.value(c, i)) << "sent " << i;
    }
    EXPECT_EQ(bench.posted_tail(), c.sends ? 4u : 0u);
    EXPECT_EQ(bench.posted_head(), c.receives ? 4u : 0u);
    EXPECT_EQ(bench.to.sender.step - first, c.sends ? 4u : 0u);
    EXPECT_EQ(bench.from.receiver.step - first, c.receives ? 4u : 0u);
  }
}

TEST_P(EachPrimitive, WaitsForDataIfItReceives) {
  if (!test_case().receives) GTEST_SKIP() << "receives nothing";
  Bench bench(0);
  bench.fill();
  bench.publish(3);  // one step less than two slices
  std::thread group([&] { bench.run(test_case(), threads(), kCount); });
  EXPECT_TRUE(becomes([&] { return bench.posted_head(); }, 2));
  give_it_a_chance();
  EXPECT_EQ(bench.posted_head(), 2u) << "went on without data";
  bench.publish(4);
  group.join();
  EXPECT_EQ(bench.posted_head(), 4u);
}

TEST_P(EachPrimitive, WaitsForRoomIfItSends) {
  if (!test_case().sends) GTEST_SKIP() << "sends nothing";
  Bench bench(0);
  bench.fill();
  bench.publish(4);
  bench.make_room(uint64_t{0} - 5);  // slots of five steps are still in use: room for one slice only
  std::thread group([&] { bench.run(test_case(), threads(), kCount); });
  EXPECT_TRUE(becomes([&] { return bench.posted_tail(); }, 2));
  give_it_a_chance();
  EXPECT_EQ(bench.posted_tail(), 2u) << "overwrote a slot in use";
  bench.make_room(uint64_t{0} - 4);
  group.join();
  EXPECT_EQ(bench.posted_tail(), 4u);
}

TEST_P(EachPrimitive, LeavesWhenTheLatchIsSet) {
  Bench bench(0);
  bench.make_room(uint64_t{0} - 8);
  std::thread group([&] { bench.run(test_case(), threads(), kCount); });
  give_it_a_chance();
  proto::store_release(&bench.latch.abort, 1u);
  group.join();
  EXPECT_FALSE(bench.ok);
  EXPECT_EQ(bench.posted_tail(), 0u);
  EXPECT_EQ(bench.posted_head(), 0u);
  for (float value : bench.output) EXPECT_EQ(value, -1.0f);
}

TEST_P(EachPrimitive, DoesNothingForNoElements) {
  Bench bench(0);
  bench.make_room(uint64_t{0} - 8);  // whatever waited would wait for ever
  bench.run(test_case(), threads(), 0);
  EXPECT_TRUE(bench.ok);
  EXPECT_EQ(bench.posted_tail() + bench.posted_head(), 0u);
}

std::vector<Parameter> all_cases() {
  std::vector<Parameter> parameters;
  for (int which = 0; which < static_cast<int>(std::size(kCases)); ++which) {
    for (int threads : {1, 3}) parameters.push_back({which, threads});
  }
  return parameters;
}
INSTANTIATE_TEST_SUITE_P(All, EachPrimitive, testing::ValuesIn(all_cases()), [](const auto& info) {
  return std::string(kCases[info.param.which].name) + "_" + std::to_string(info.param.threads);
});

// Sender and receiver of one connection, operations of many sizes; slices of one and of two steps in turn, so that
// the longer ones find the step at odd numbers.
template <class Protocol>
void talk(test::Link& link, int threads, const std::vector<float>& data, std::vector<float>& got) {
  const proto::FaultLatch latch{0};
  test::run_grids(2, 1, threads, [&](int side, const gpu::EmuBlock& block) {
    const bool sends = side == 0;
    Prims<Protocol> prims(Crew(block), sends ? nullptr : &link.receiver, sends ? &link.sender : nullptr, kSlotBytes,
                          &latch, data.data(), got.data());
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
  test::Link link(kSlotBytes, uint64_t{0} - 9);
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
INSTANTIATE_TEST_SUITE_P(Threads, Conversation, testing::Values(1, 3));

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
