// Tests of the primitives whose data carry their own news, compiled once for each such protocol: the file that includes
// this defines LinesUnderTest (the protocol's tag) before. The primitive under test has peers on both sides, groups of
// threads of their own that send and receive; or the test plays a peer that is late.
#pragma once
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "each_case.h"
#include "looks.h"
#include "proto/primitives.h"
#include "thread_block.h"
#include "world.h"

namespace gpucoll {
namespace {

using gpu::emu::ThreadBlock;
using gpu::emu::ThreadBlockPart;
using proto::Bytes;
using proto::Fan;
using std::chrono::milliseconds;
using std::chrono::seconds;
template <class Family, class F>
using Prims = proto::Primitives<Family, ThreadBlock, LinesUnderTest, F>;

using Floats = proto::Family<proto::Sum<float>, proto::Avg<float>, proto::PreMulSum<float>>;
enum Op : uint8_t { kSum, kAvg, kPreMulSum };
constexpr float kScalar = 3, kRanks = 4;  // powers of two and small numbers: sums are exact
constexpr int kMostPeers = 2;

const proto::ConnectionShape kShape = test::shape_of(256);  // two lines of LL128 in a step, or eight packs of LL
// Elements of float in a step.
const uint64_t kStep = Prims<Floats, Fan<1, 1>>::chunk_elements(kShape) / 2;

// Where a word of each line of the second unit of step 0 lies in the receiver's block.
constexpr bool kLl = std::is_same_v<LinesUnderTest, proto::Ll>;
const size_t kSecondUnit =
    kLl ? proto::ReceiveBlock::ll_offset(kShape) + 16 : proto::ReceiveBlock::ll128_offset(kShape) + 128;
constexpr size_t kSecondUnitBytes = kLl ? 16 : 128;

proto::Reduction reduction_of(Op op) {
  return {op, op == kAvg ? static_cast<uint64_t>(kRanks) : __builtin_bit_cast(uint32_t, kScalar), 0};
}
size_t at(int i) { return static_cast<size_t>(i); }

// Sets the latch when what it watches takes too long: a lost wait then fails its test instead of stopping all.
class Watch {
 public:
  explicit Watch(proto::FaultLatch& latch)
      : thread_([this, &latch] {
          const auto until = std::chrono::steady_clock::now() + seconds(proto::kMutant == 0 ? 50 : 3);
          while (!ended_ && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(milliseconds(1));
          if (!ended_) proto::store_release(&latch.abort, 1u);
        }) {}
  ~Watch() {
    ended_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

struct Case {
  const char* name;
  bool receives, sends, reads, writes, complete;
  int most_in;
  std::function<void(Prims<Floats, Fan<2, 2>>&, uint64_t in, uint64_t out, uint64_t n)> run;
  bool keeps = false;  // what came, in the output
};
const Case kCases[] = {
    {"send", false, true, true, false, false, 0, [](auto& p, auto in, auto, auto n) { p.send(in, n); }},
    {"recv", true, false, false, true, false, 1, [](auto& p, auto, auto out, auto n) { p.recv(out, n); }},
    {"copy_send", false, true, true, true, false, 0,
     [](auto& p, auto in, auto out, auto n) { p.copy_send(in, out, n); }},
    {"recv_copy_send", true, true, false, true, false, 1,
     [](auto& p, auto, auto out, auto n) { p.recv_copy_send(out, n); }},
    {"recv_reduce_copy", true, false, true, true, true, 2,
     [](auto& p, auto in, auto out, auto n) { p.recv_reduce_copy(in, out, n); }},
    {"recv_reduce_send", true, true, true, false, false, 2,
     [](auto& p, auto in, auto, auto n) { p.recv_reduce_send(in, n); }},
    {"recv_reduce_copy_send", true, true, true, true, true, 2,
     [](auto& p, auto in, auto out, auto n) { p.recv_reduce_copy_send(in, out, n); }},
    {"recv_copy_reduce_send", true, true, true, true, false, 1,
     [](auto& p, auto in, auto out, auto n) { p.recv_copy_reduce_send(in, out, n); }, true},
};

// The primitive under test between peers that send to it and receive from it: two operations, one after the other.
struct Setting {
  uint64_t first_step = 0, n[2] = {37, 5};
  int n_in = 1, n_out = 1, threads = 1;
  Op op = kSum;
  bool in_place = false;
};
class Bench {
  const Setting s_;

 public:
  explicit Bench(const Setting& setting) : s_(setting) {
    for (int i = 0; i < kMostPeers; ++i) {
      from.push_back(std::make_unique<test::Link>(kShape, s_.first_step));
      to.push_back(std::make_unique<test::Link>(kShape, s_.first_step));
      got.emplace_back(total() + 1, -1.0f);
      sent.emplace_back(total());
      for (uint64_t k = 0; k < total(); ++k) sent.back()[k] = static_cast<float>((k % 1000 * 8 + 1000) << (3 * i));
    }
    for (size_t i = 0; i < input.size(); ++i) input[i] = static_cast<float>(i % 1000) * 4 + 8;
    output.assign(input.size(), -1.0f);
    if (s_.in_place) output = input;
  }
  uint64_t total() const { return s_.n[0] + s_.n[1]; }

  void run(const Case& c) {
    const Watch watch(latch);
    const int n_in = c.receives ? s_.n_in : 0, n_out = c.sends ? s_.n_out : 0;
    std::vector<std::thread> peers;
    for (int i = 0; i < n_in; ++i) peers.emplace_back([this, i] { send_as_peer(i, 3 - i); });
    for (int i = 0; i < n_out; ++i) peers.emplace_back([this, i] { receive_as_peer(i, 2 + i); });
    run_alone(c);
    for (std::thread& peer : peers) peer.join();
  }
  // Without peers.
  void run_alone(const Case& c) {
    proto::Ends<Fan<2, 2>> ends{};
    for (int i = 0; i < s_.n_in; ++i) ends.recv[i] = &from[at(i)]->receiver;
    for (int i = 0; i < s_.n_out; ++i) ends.send[i] = &to[at(i)]->sender;
    const proto::Buffers buffers{s_.in_place ? output.data() : input.data(), output.data()};
    test::run_block(s_.threads, [&](const ThreadBlock& coop) {
      Prims<Floats, Fan<2, 2>> prims(coop, ends, kShape, &latch, buffers, reduction_of(s_.op));
      c.run(prims, kFrom, to_at(), s_.n[0]);
      c.run(prims, kFrom + s_.n[0], to_at() + s_.n[0], s_.n[1]);
      for (int i = 0; i < 8 && !prims.ok(); ++i) c.run(prims, 0, 0, 100);  // does nothing, and so comes back
    });
  }
  void send_as_peer(int i, int threads) {
    test::run_grids(1, 1, threads, [&](int, const gpu::EmuBlock& block) {
      Prims<Floats, Fan<0, 1>> prims(ThreadBlock(block), {{}, {&from[at(i)]->sender}}, kShape, &latch,
                                     {sent[at(i)].data(), nullptr}, {});
      prims.send(0, s_.n[0]);
      prims.send(s_.n[0], s_.n[1]);
    });
  }
  void receive_as_peer(int i, int threads) {
    test::run_grids(1, 1, threads, [&](int, const gpu::EmuBlock& block) {
      Prims<Floats, Fan<1, 0>> prims(ThreadBlock(block), {{&to[at(i)]->receiver}, {}}, kShape, &latch,
                                     {nullptr, got[at(i)].data()}, {});
      prims.recv(0, s_.n[0]);
      prims.recv(s_.n[0], s_.n[1]);
    });
  }

  float value(const Case& c, uint64_t i) const {
    float sum = 0;
    for (int peer = 0; c.receives && peer < s_.n_in; ++peer) sum += sent[at(peer)][i];
    if (c.reads) sum += input[kFrom + i] * (s_.op == kPreMulSum ? kScalar : 1);
    return s_.op == kAvg && c.complete ? sum / kRanks : sum;
  }
  float kept(const Case& c, uint64_t i) const { return c.keeps ? sent[0][i] : value(c, i); }
  void expect_moved(const Case& c) const {
    EXPECT_EQ(latch.abort, 0u) << "waits for ever";
    for (uint64_t i = 0; i < output.size(); ++i) {
      const bool inside = c.writes && i >= to_at() && i < to_at() + total();
      const float before = s_.in_place ? input[i] : -1.0f;
      ASSERT_EQ(output[i], inside ? kept(c, i - to_at()) : before) << "the result differs at " << i;
    }
    for (int peer = 0; peer < kMostPeers; ++peer) {
      const bool sends = c.sends && peer < s_.n_out;
      for (uint64_t i = 0; i <= total(); ++i) {
        ASSERT_EQ(got[at(peer)][i], sends && i < total() ? value(c, i) : -1.0f) << "the result differs at " << i;
      }
    }
    const uint64_t steps = (s_.n[0] + kStep - 1) / kStep + (s_.n[1] + kStep - 1) / kStep;
    for (int peer = 0; peer < kMostPeers; ++peer) {
      expect_steps(*from[at(peer)], c.receives && peer < s_.n_in ? steps : 0);
      expect_steps(*to[at(peer)], c.sends && peer < s_.n_out ? steps : 0);
    }
  }

  std::vector<std::unique_ptr<test::Link>> from, to;
  std::vector<std::vector<float>> sent, got;
  proto::FaultLatch latch{};
  std::vector<float> input = std::vector<float>(total() + 16), output;

 private:
  static constexpr uint64_t kFrom = 3;
  uint64_t to_at() const { return s_.in_place ? kFrom : 5; }
  void expect_steps(test::Link& link, uint64_t steps) const {
    EXPECT_EQ(link.sender.step - s_.first_step, steps);
    EXPECT_EQ(link.receiver.step - s_.first_step, steps);
    EXPECT_EQ(*link.head() - s_.first_step, steps);
    EXPECT_EQ(*link.tail(), s_.first_step) << "Simple's";
  }
};

class EachPrimitive : public testing::TestWithParam<test::EachCase> {
 protected:
  const Case& test_case() const { return kCases[GetParam().which]; }
  int threads() const { return GetParam().threads; }
  void expect_right(Setting setting) {
    setting.threads = threads();
    SCOPED_TRACE(testing::Message() << setting.n_in << " receives, " << setting.n_out << " sends, step "
                                    << setting.first_step << ", n " << setting.n[0] << ", op " << setting.op);
    Bench bench(setting);
    bench.run(test_case());
    bench.expect_moved(test_case());
  }
};

TEST_P(EachPrimitive, MovesWhatItSays) {
  const int least_in = test_case().reads && !test_case().keeps ? 0 : 1,
            most_in = std::max(least_in, test_case().most_in);
  for (int n_in = least_in; n_in <= most_in; ++n_in) {
    for (int n_out = 0; n_out <= kMostPeers; ++n_out) {
      for (Op op : {kSum, kAvg, kPreMulSum}) {
        expect_right({.first_step = 6, .n = {kStep * 2 + 1, 3}, .n_in = n_in, .n_out = n_out, .op = op});
      }
    }
  }
}
TEST_P(EachPrimitive, CutsAnyNumberOfElements) {
  for (uint64_t n : {uint64_t{0}, uint64_t{1}, kStep - 1, kStep, kStep + 1, 4 * kStep, 9 * kStep + 2, 40 * kStep}) {
    expect_right({.n = {n, 2}});
  }
}
TEST_P(EachPrimitive, WorksInPlace) { expect_right({.n = {5 * kStep + 3, 21}, .in_place = true}); }
TEST_P(EachPrimitive, LivesThroughTheWrapOfFlagsAndSteps) {
  for (uint64_t first : {(uint64_t{1} << 32) - 3, uint64_t{0} - 2}) {
    expect_right({.first_step = first, .n = {9 * kStep, 11 * kStep + 1}});
  }
}

bool becomes(const std::function<uint64_t()>& now, uint64_t wanted) {
  for (int i = 0; i < 5000 && now() != wanted; ++i) std::this_thread::sleep_for(milliseconds(1));
  return now() == wanted;
}

TEST_P(EachPrimitive, WaitsForRoom) {
  const Case& c = test_case();
  if (!c.sends) GTEST_SKIP() << "sends nothing";
  Bench bench({.n = {9 * kStep, 0}, .n_out = 2, .threads = threads()});
  const Watch watch(bench.latch);
  // The first peer receives nothing: eight steps find room, the ninth does not.
  std::vector<std::thread> running;
  if (c.receives) running.emplace_back([&] { bench.send_as_peer(0, 1); });
  running.emplace_back([&] { bench.receive_as_peer(1, 1); });
  running.emplace_back([&] { bench.run_alone(c); });
  EXPECT_TRUE(becomes([&] { return proto::load_acquire(bench.to[1]->head()); }, 8));
  test::let_them_look();
  EXPECT_EQ(proto::load_acquire(bench.to[1]->head()), 8u) << "went on without room";
  running.emplace_back([&] { bench.receive_as_peer(0, 1); });
  for (std::thread& thread : running) thread.join();
  for (uint64_t i = 0; i < 9 * kStep; ++i) {
    ASSERT_EQ(bench.got[0][i], bench.value(c, i)) << "the result differs at " << i;
  }
}

// Copies the slots of one connection to another, word by word, but for those in [first, last).
void deliver(const test::Link& from, const test::Link& to, size_t first, size_t last) {
  for (size_t i = proto::ReceiveBlock::kSlotsOffset; i < proto::ReceiveBlock::bytes(kShape); i += sizeof(uint64_t)) {
    if (i >= first && i < last) continue;
    uint64_t* const word = reinterpret_cast<uint64_t*>(to.receiver.receive + i);
    proto::store_release(word, *reinterpret_cast<const uint64_t*>(from.receiver.receive + i));
  }
}

TEST_P(EachPrimitive, GivesSlotsBackOnlyWhenAllHaveReadThem) {
  const Case& c = test_case();
  if (!c.receives) GTEST_SKIP() << "receives nothing";
  Bench bench({.n = {4 * kStep, 0}, .n_out = 0, .threads = threads()});
  const Watch watch(bench.latch);
  test::Link under_way(kShape);
  std::swap(under_way, *bench.from[0]);
  bench.send_as_peer(0, 1);
  std::swap(under_way, *bench.from[0]);
  // The second unit of the first step is late: the second of three threads waits for it, the others go on.
  deliver(under_way, *bench.from[0], kSecondUnit, kSecondUnit + kSecondUnitBytes);
  std::thread group([&] { bench.run_alone(c); });
  test::let_them_look();
  EXPECT_EQ(proto::load_acquire(bench.from[0]->head()), 0u) << "gave a slot back that is still read";
  deliver(under_way, *bench.from[0], 0, 0);
  group.join();
  EXPECT_EQ(proto::load_acquire(bench.from[0]->head()), 4u);
  for (uint64_t i = 0; c.writes && i < 4 * kStep; ++i) ASSERT_EQ(bench.output[5 + i], bench.kept(c, i));
}

TEST_P(EachPrimitive, LeavesWhenTheLatchIsSet) {
  const Case& c = test_case();
  Bench bench({.n = {9 * kStep, 100}, .n_in = c.receives ? 1 : 0, .n_out = 2, .threads = threads()});
  const bool waits = c.receives || c.sends;
  std::thread group([&] { bench.run_alone(c); });
  if (waits) test::let_them_look();
  proto::store_release(&bench.latch.abort, 1u);
  group.join();
  if (!waits) return;
  for (const auto& link : bench.from) EXPECT_EQ(*link->head(), 0u);
}

INSTANTIATE_TEST_SUITE_P(All, EachPrimitive, testing::ValuesIn(test::each_case(kCases)),
                         [](const auto& info) { return test::name_of(kCases, info.param); });

class Threads : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(All, Threads, testing::Values(1, 3));

// ---- elements of every size, at any address ----

// Values of which sums of two are exact, whatever the type.
template <class T>
void draw(T& value, uint64_t i) {
  value = static_cast<T>(i % 61);
}
void draw(proto::Half& value, uint64_t i) { value = proto::to_half(static_cast<float>(i % 61)); }
template <class T>
void draw(proto::Complex<T>& value, uint64_t i) {
  value = {static_cast<T>(i % 61), static_cast<T>(i % 17)};
}
template <class V, class I>
void draw(proto::Pair<V, I>& pair, uint64_t i) {
  pair.value = static_cast<V>(i % 3);
  pair.index = static_cast<I>(i % 61);
}

// n elements at `offset` bytes from a multiple of 16, among bytes that nobody may touch, like the elements' padding.
template <class T>
class Elements {
 public:
  static constexpr uint8_t kUntouched = 0xa5;
  Elements(uint64_t n, size_t offset) : offset_(32 + offset), memory_((n * sizeof(T) + offset) / 16 + 5) {
    std::memset(memory_.data(), kUntouched, memory_.size() * sizeof(proto::Pack));
  }
  uint8_t* data() { return reinterpret_cast<uint8_t*>(memory_.data()) + offset_; }
  T get(uint64_t i) { return proto::ElementAccess<T, false>::read(data() + i * sizeof(T)); }
  void set(uint64_t i, const T& value) { proto::ElementAccess<T, false>::write(data() + i * sizeof(T), value); }
  bool operator==(const Elements& other) const {
    return std::memcmp(memory_.data(), other.memory_.data(), memory_.size() * sizeof(proto::Pack)) == 0;
  }

 private:
  size_t offset_;
  std::vector<proto::Pack> memory_;
};

// The first sends x, the second reduces it with y and sends the result to the third.
template <class Red>
void expect_any_address(int threads) {
  using T = typename Red::Element;
  using Family = proto::Family<Red>;
  for (size_t offset : {size_t{0}, sizeof(T), size_t{8}, size_t{4}, size_t{1}, size_t{15}}) {
    for (uint64_t n : {uint64_t{1}, uint64_t{77}, uint64_t{300}}) {
      SCOPED_TRACE(testing::Message() << sizeof(T) << " bytes, offset " << offset << ", n " << n);
      Elements<T> x(n, offset), y(n, 16 - offset), sum(n, offset), back(n, 3 * offset), want_sum = sum,
                                                                                        want_back = back;
      for (uint64_t i = 0; i < n; ++i) {
        T a{}, b{};
        draw(a, i);
        draw(b, 5 * i + 1);
        x.set(i, a);
        y.set(i, b);
        want_sum.set(i, Red::apply(a, b));
        want_back.set(i, Red::apply(a, b));
      }
      test::Link to_second(kShape), to_third(kShape);
      proto::FaultLatch latch{};
      const Watch watch(latch);
      test::run_grids(3, 1, threads, [&](int place, const gpu::EmuBlock& block) {
        const proto::Ends<Fan<1, 1>> ends[3] = {
            {{}, {&to_second.sender}}, {{&to_second.receiver}, {&to_third.sender}}, {{&to_third.receiver}, {}}};
        const proto::Buffers buffers[3] = {{x.data(), nullptr}, {y.data(), sum.data()}, {nullptr, back.data()}};
        Prims<Family, Fan<1, 1>> prims(ThreadBlock(block), ends[place], kShape, &latch, buffers[place], {});
        if (place == 0) prims.send(0, n);
        if (place == 1) prims.recv_reduce_copy_send(0, 0, n);
        if (place == 2) prims.recv(0, n);
      });
      ASSERT_TRUE(sum == want_sum) << "the result differs";
      ASSERT_TRUE(back == want_back) << "the result differs";
    }
  }
}

TEST_P(Threads, MoveElementsOfEverySizeAtAnyAddress) {
  expect_any_address<proto::Bxor<uint8_t>>(GetParam());
  expect_any_address<proto::Sum<proto::Half>>(GetParam());
  expect_any_address<proto::Max<int32_t>>(GetParam());
  expect_any_address<proto::Sum<double>>(GetParam());
  expect_any_address<proto::Prod<proto::Complex<double>>>(GetParam());
  expect_any_address<proto::Maxloc<proto::ShortInt>>(GetParam());
  expect_any_address<proto::Minloc<proto::DoubleInt>>(GetParam());
}

// ---- with Simple, on one connection ----

template <class Protocol>
void talk(test::Link& link, int threads, const std::vector<float>& data, std::vector<float>& got, uint64_t first) {
  proto::FaultLatch latch{};
  const Watch watch(latch);
  test::run_grids(2, 1, threads, [&](int side, const gpu::EmuBlock& block) {
    const bool sends = side == 0;
    const proto::Ends<Fan<1, 1>> ends{{sends ? nullptr : &link.receiver}, {sends ? &link.sender : nullptr}};
    proto::Primitives<Floats, ThreadBlock, Protocol> prims(ThreadBlock(block), ends, kShape, &latch,
                                                           {data.data(), got.data()}, {});
    for (uint64_t n = first, i = 0; i + n <= data.size(); i += n, n += 7) {
      if (sends) {
        prims.send(i, n);
      } else {
        prims.recv(i, n);
      }
    }
  });
}

TEST_P(Threads, MayAlternateWithSimpleOnAConnection) {
  std::vector<float> data(1000);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(i + 1);
  test::Link link(kShape, (uint64_t{1} << 32) - 9);
  for (int round = 0; round < 30; ++round) {
    std::vector<float> got(data.size()), want = data;
    const uint64_t first = static_cast<uint64_t>(1 + round % 5 * 40);
    if (round % 3 == 1) {
      talk<proto::Simple<>>(link, GetParam(), data, got, first);
    } else {
      talk<LinesUnderTest>(link, GetParam(), data, got, first);
    }
    uint64_t moved = 0;
    for (uint64_t n = first; moved + n <= data.size(); n += 7) moved += n;
    std::fill(want.begin() + static_cast<long>(moved), want.end(), 0.0f);
    ASSERT_EQ(got, want) << "the result differs in round " << round;
    ASSERT_EQ(link.sender.step, link.receiver.step);
  }
}

// ---- rings, where everybody sends before anybody receives ----

TEST_P(Threads, OfARingDoNotBlockEachOther) {
  constexpr int kPlaces = 3, kRounds = 40;
  const uint64_t chunk = Prims<Floats, Fan<1, 1>>::chunk_elements(kShape);
  test::World world(kPlaces, 1, 256);
  const Watch watch(world.latch());
  std::vector<std::vector<float>> in(kPlaces), out(kPlaces);
  for (int r = 0; r < kPlaces; ++r) {
    in[at(r)].assign(chunk * kRounds, static_cast<float>(r + 1));
    out[at(r)].assign(chunk * kRounds, 0.0f);
  }
  test::run_grids(kPlaces, 1, GetParam(), [&](int rank, const gpu::EmuBlock& block) {
    proto::ChannelComm& comm = world.comm(rank).channel[0];
    Prims<Floats, Fan<1, 1>> prims(ThreadBlock(block), {{&comm.ring_recv}, {&comm.ring_send}}, kShape, comm.latch,
                                   {in[at(rank)].data(), out[at(rank)].data()}, {});
    for (uint64_t round = 0; round < kRounds; ++round) {
      prims.send(round * chunk, chunk);
      prims.recv_reduce_send(round * chunk, chunk);
      prims.recv_reduce_copy(round * chunk, round * chunk, chunk);
    }
  });
  EXPECT_EQ(world.latch().abort, 0u) << "ranks wait for ever";
  for (const auto& result : out) {
    for (float value : result) ASSERT_EQ(value, 6.0f) << "the result differs";
  }
}

// ---- many lines, one after another ----

TEST_P(Threads, NeverTakeALineForWholeTooEarly) {
  const uint64_t n = 20000;
  std::vector<double> data(n), got(n);
  for (uint64_t i = 0; i < n; ++i) data[i] = static_cast<double>(i) * 0x1.0001p40 + 1;
  test::Link link(kShape);
  proto::FaultLatch latch{};
  const Watch watch(latch);
  using Doubles = proto::Family<proto::Sum<double>>;
  test::run_grids(2, 1, GetParam(), [&](int side, const gpu::EmuBlock& block) {
    if (side == 0) {
      Prims<Doubles, Fan<0, 1>>(ThreadBlock(block), {{}, {&link.sender}}, kShape, &latch, {data.data(), nullptr}, {})
          .send(0, n);
    } else {
      Prims<Doubles, Fan<1, 0>>(ThreadBlock(block), {{&link.receiver}, {}}, kShape, &latch, {nullptr, got.data()}, {})
          .recv(0, n);
    }
  });
  ASSERT_EQ(got, data) << "the result differs";
}

// ---- messages ----

// As in primitives_test.cpp, but each side has its protocol.
class Messages : public testing::TestWithParam<int> {
 protected:
  template <class Sends, class Receives>
  void pass(uint64_t sent, uint64_t expected) {
    const Watch watch(latch_);
    test::run_grids(2, 1, GetParam(), [&](int side, const gpu::EmuBlock& block) {
      const ThreadBlock coop(block);
      if (side == 0) {
        proto::Primitives<Bytes, ThreadBlock, Sends, Fan<0, 1>>(coop, {{}, {&link_.sender}}, kShape, &latch_,
                                                                {data_.data(), nullptr}, {})
            .send_message(1, sent, sent + kElsewhere);
      } else {
        proto::Primitives<Bytes, ThreadBlock, Receives, Fan<1, 0>> receiver(coop, {{&link_.receiver}, {}}, kShape,
                                                                            &latch_, {nullptr, got_.data()}, {});
        receiver.recv_message(3, expected, expected + kElsewhere, 7);
        if (coop.rank() == 0) ok_ = receiver.ok();
      }
    });
  }
  template <class Sends, class Receives>
  void expect_report(uint64_t sent, uint64_t expected) {
    pass<Sends, Receives>(sent, expected);
    EXPECT_FALSE(ok_);
    EXPECT_EQ(latch_.abort, 1u);
    EXPECT_EQ(latch_.kind, proto::kFaultSizes);
    EXPECT_EQ(latch_.peer, 7);
    EXPECT_EQ(latch_.sent_bytes, sent + kElsewhere);
    EXPECT_EQ(latch_.expected_bytes, expected + kElsewhere);
  }
  void SetUp() override {
    for (size_t i = 0; i < data_.size(); ++i) data_[i] = static_cast<uint8_t>(i * 7 + i / 250);
  }

  static constexpr uint64_t kElsewhere = 10000;  // bytes of the message's other parts
  test::Link link_{kShape, (uint64_t{1} << 32) - 3};
  proto::FaultLatch latch_{};
  std::vector<uint8_t> data_ = std::vector<uint8_t>(5000), got_ = std::vector<uint8_t>(5010);
  bool ok_ = false;
};

TEST_P(Messages, ArriveWhole) {
  for (uint64_t bytes : {0, 1, 15, 17, 112, 113, 240, 4096, 4901, 0, 3}) {
    std::fill(got_.begin(), got_.end(), uint8_t{0xa5});
    ok_ = false;
    const uint64_t first_step = link_.sender.step;
    pass<LinesUnderTest, LinesUnderTest>(bytes, bytes);
    EXPECT_TRUE(ok_);
    EXPECT_EQ(latch_.abort, 0u);
    for (uint64_t i = 0; i < got_.size(); ++i) {
      ASSERT_EQ(got_[i], i >= 3 && i < 3 + bytes ? data_[i - 2] : 0xa5) << "the result differs at " << i;
    }
    uint64_t noted = 0;
    EXPECT_TRUE(proto::find_note(link_.receiver.receive, first_step, noted));
    EXPECT_EQ(noted, bytes + kElsewhere);
    EXPECT_EQ(link_.sender.step, link_.receiver.step);
    EXPECT_EQ(*link_.head(), link_.receiver.step);
  }
}
TEST_P(Messages, LongerThanExpectedAreReported) { expect_report<LinesUnderTest, LinesUnderTest>(4000, 3999); }
TEST_P(Messages, ShorterThanExpectedAreReported) { expect_report<LinesUnderTest, LinesUnderTest>(0, 2000); }
TEST_P(Messages, FromSimpleAreCompared) { expect_report<proto::Simple<>, LinesUnderTest>(5, 4); }
TEST_P(Messages, ToSimpleAreCompared) { expect_report<LinesUnderTest, proto::Simple<>>(40, 4000); }
INSTANTIATE_TEST_SUITE_P(All, Messages, testing::Values(1, 3));

}  // namespace
}  // namespace gpucoll
