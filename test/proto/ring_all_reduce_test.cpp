// Ring allreduce through run_plan: every rank, block and thread a CPU thread.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <limits>
#include <random>

#include "coll/device/run_plan.h"
#include "crew.h"
#include "world.h"

namespace gpucoll {
namespace {

using coll::device::Range;
using proto::Simple;

struct Shape {
  int n_ranks, n_channels, threads;
  uint64_t count;
  uint32_t slot_bytes = 128;
  bool in_place = false;
  uint64_t first_step = 0;
  uint64_t channel_mask = 0;  // 0: the first n_channels
  int items = 1;
  uint32_t chunk_bytes = 0;
};

template <class T>
using Buffers = std::vector<std::vector<T>>;

template <class T>
Buffers<T> random_inputs(int n_ranks, uint64_t count) {
  Buffers<T> inputs(static_cast<size_t>(n_ranks));
  std::mt19937_64 random(count + static_cast<uint64_t>(n_ranks));
  for (auto& buffer : inputs) {
    buffer.resize(count);
    for (T& value : buffer) value = static_cast<T>(static_cast<double>(random() % 2000) / 7.0 - 100.0);
  }
  return inputs;
}

// The order that ring_all_reduce.h promises for chunk `place`: from the rank after the place round to the place.
template <class Red>
auto in_ring_order(const Buffers<typename Red::Element>& in, int channel, int place, uint64_t i) {
  const int n = static_cast<int>(in.size());
  auto at = [&](int p) { return in[static_cast<size_t>(test::rank_at(channel, p, n))][i]; };
  auto value = at(place + 1);
  for (int p = place + 2; p <= place + n; ++p) value = Red::apply(value, at(p));
  return value;
}

template <class Red>
std::vector<typename Red::Element> expected(const Shape& s, const Buffers<typename Red::Element>& in) {
  using T = typename Red::Element;
  std::vector<T> out(s.count);
  const uint64_t line = s.chunk_bytes >= 128 ? s.chunk_bytes / 128 * 128 : Simple<>::chunk_bytes(s.slot_bytes);
  const uint32_t n = static_cast<uint32_t>(s.n_ranks);
  for (int b = 0; b < s.n_channels; ++b) {
    const int channel = static_cast<int>(
        s.channel_mask ? coll::device::nth_bit(s.channel_mask, static_cast<uint32_t>(b)) : static_cast<uint32_t>(b));
    const Range share =
        coll::device::channel_range(s.count, sizeof(T), static_cast<uint32_t>(s.n_channels), static_cast<uint32_t>(b));
    for (uint64_t done = 0; done < share.count;) {
      const uint64_t left = share.count - done;
      const uint64_t chunk = coll::device::round_chunk(left, sizeof(T), n, line / sizeof(T));
      for (uint64_t i = 0; i < std::min(left, chunk * n); ++i) {
        const uint64_t at = share.first + done + i;
        out[at] = in_ring_order<Red>(in, channel, static_cast<int>(i / chunk), at);
      }
      done += chunk * n;
    }
  }
  return out;
}

template <class Red>
void run_shape(const Shape& s) {
  using T = typename Red::Element;
  SCOPED_TRACE(testing::Message() << s.n_ranks << " ranks, " << s.n_channels << " channels, " << s.threads
                                  << " threads, " << s.count << " elements, in place " << s.in_place);
  const uint64_t mask = s.channel_mask ? s.channel_mask : (uint64_t{1} << s.n_channels) - 1;
  test::World world(s.n_ranks, 64 - __builtin_clzll(mask), s.slot_bytes, s.first_step);
  const Buffers<T> in = random_inputs<T>(s.n_ranks, s.count);
  const std::vector<T> want = expected<Red>(s, in);
  const Buffers<T> blank(in.size(), std::vector<T>(s.count));
  std::vector<Buffers<T>> out(static_cast<size_t>(s.items), s.in_place ? in : blank);
  std::vector<uint64_t> done(in.size(), 0);
  std::vector<proto::Plan> plans(in.size());
  for (size_t r = 0; r < in.size(); ++r) {
    plans[r] = proto::Plan{};
    plans[r].comm = &world.comm(static_cast<int>(r));
    plans[r].done_word = &done[r];
    plans[r].done_value = 77;
    plans[r].channel_mask = mask;
    plans[r].n_items = static_cast<uint32_t>(s.items);
    for (size_t i = 0; i < out.size(); ++i) {
      plans[r].items[i] = {s.in_place ? out[i][r].data() : in[r].data(), out[i][r].data(), s.count,
                           static_cast<uint32_t>(s.n_channels), s.chunk_bytes};
    }
  }
  test::run_grids(s.n_ranks, s.n_channels, s.threads, [&](int rank, const gpu::EmuBlock& block) {
    coll::device::run_plan<Red>(gpu::emu::Crew(block), static_cast<uint32_t>(block.block),
                                static_cast<uint32_t>(block.n_blocks), plans[static_cast<size_t>(rank)]);
  });
  for (size_t r = 0; r < in.size(); ++r) {
    EXPECT_EQ(done[r], 77u);
    EXPECT_EQ(world.blocks_done(static_cast<int>(r)), 0u);
    for (const Buffers<T>& item : out) {
      const size_t bytes = s.count * sizeof(T);
      ASSERT_TRUE(bytes == 0 || std::memcmp(item[r].data(), want.data(), bytes) == 0) << "rank " << r;
    }
  }
}

class RingAllReduce : public testing::TestWithParam<int> {};  // the parameter: threads a block

TEST_P(RingAllReduce, EveryNumberOfRanksAndOddCounts) {
  for (int n = 1; n <= 5; ++n) {
    for (uint64_t count : {0, 1, 2, 3, 5, 31, 127, 1000, 2049}) {
      run_shape<proto::Sum<float>>({n, 1, GetParam(), count});
      run_shape<proto::Sum<float>>({n, 1, GetParam(), count, 128, true});
    }
  }
}

TEST_P(RingAllReduce, SeveralChannels) {
  for (int n : {2, 3, 4}) {
    for (uint64_t count : {1, 7, 100, 4001}) run_shape<proto::Sum<float>>({n, 3, GetParam(), count});
  }
}

TEST_P(RingAllReduce, ChannelsWithHolesInTheMask) {
  Shape shape{3, 2, GetParam(), 999};
  shape.channel_mask = 0b101000;
  run_shape<proto::Sum<float>>(shape);
}

TEST_P(RingAllReduce, CountersWrap) {
  for (uint64_t before : {1, 2, 8, 16, 40}) {
    Shape shape{3, 1, GetParam(), 3000};
    shape.first_step = uint64_t{0} - before;
    run_shape<proto::Sum<uint32_t>>(shape);
  }
}

TEST_P(RingAllReduce, ItemsRunOneAfterAnother) {
  Shape shape{3, 2, GetParam(), 777};
  shape.items = 4;
  run_shape<proto::Sum<float>>(shape);
}

TEST_P(RingAllReduce, ChunksSmallerThanTheConnectionAllows) {
  Shape shape{3, 1, GetParam(), 5000, 1024};
  shape.chunk_bytes = 300;  // counts as 256
  run_shape<proto::Max<double>>(shape);
}

TEST_P(RingAllReduce, EveryElementSize) {
  for (uint64_t count : {1, 130, 1111}) {
    run_shape<proto::Sum<uint8_t>>({3, 2, GetParam(), count});
    run_shape<proto::Max<int16_t>>({3, 2, GetParam(), count});
    run_shape<proto::Sum<double>>({3, 2, GetParam(), count});
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, RingAllReduce, testing::Values(1, 3));

// One rank of two runs: it can only end through the latch, and still reports the end of the plan.
TEST(RingAllReduceFault, LatchEndsEveryWait) {
  test::World world(2, 2, 128);
  std::vector<float> data(10000, 1.0f);
  uint64_t done = 0;
  proto::Plan plan{};
  plan.comm = &world.comm(0);
  plan.done_word = &done;
  plan.done_value = 5;
  plan.channel_mask = 3;
  plan.n_items = 2;
  plan.items[0] = plan.items[1] = {data.data(), data.data(), data.size(), 2, 0};
  std::thread host([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_EQ(proto::load_acquire(&done), 0u) << "ended without its peer";
    proto::store_release(&world.latch().abort, 1u);
  });
  test::run_grids(1, 2, 3, [&](int, const gpu::EmuBlock& block) {
    coll::device::run_plan<proto::Sum<float>>(gpu::emu::Crew(block), static_cast<uint32_t>(block.block), 2u, plan);
  });
  host.join();
  EXPECT_EQ(done, 5u);
}

#if !defined(__SANITIZE_THREAD__)  // its shadow of so much memory would not fit

// More than 4 GiB of addresses over little memory: one window again and again, and at the end another one, so that
// an offset cut to 32 bits is noticed.
class Windows {
 public:
  static constexpr size_t kWindow = 4 << 20, kBytes = (size_t{1} << 32) + kWindow;
  explicit Windows(uint32_t value) {
    base_ = static_cast<uint8_t*>(mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    const int file = memfd_create("windows", MFD_CLOEXEC);
    if (base_ == MAP_FAILED || ftruncate(file, 2 * kWindow) != 0) std::abort();
    for (size_t at = 0; at < kBytes; at += kWindow) {
      const bool last = at + kWindow == kBytes;
      if (mmap(base_ + at, kWindow, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, last ? kWindow : 0) ==
          MAP_FAILED) {
        std::abort();
      }
    }
    close(file);
    for (size_t at : {size_t{0}, kBytes - kWindow}) std::fill_n(words(at), kWindow / 4, at == 0 ? value : value * 10);
  }
  ~Windows() { munmap(base_, kBytes); }
  Windows(const Windows&) = delete;
  Windows& operator=(const Windows&) = delete;
  uint32_t* words(size_t byte) { return reinterpret_cast<uint32_t*>(base_ + byte); }

 private:
  uint8_t* base_;
};

TEST(RingAllReduceHuge, OffsetsAre64BitsWide) {
  constexpr int kRanks = 2;
  test::World world(kRanks, 1, 32768);
  Windows in[kRanks]{Windows(3), Windows(4)}, out[kRanks]{Windows(0), Windows(0)};
  uint64_t done[kRanks] = {};
  proto::Plan plans[kRanks]{};
  for (int r = 0; r < kRanks; ++r) {
    plans[r].comm = &world.comm(r);
    plans[r].done_word = &done[r];
    plans[r].channel_mask = plans[r].n_items = 1;
    plans[r].items[0] = {in[r].words(0), out[r].words(0), Windows::kBytes / 4, 1, 0};
  }
  test::run_grids(kRanks, 1, 1, [&](int rank, const gpu::EmuBlock& block) {
    coll::device::run_plan<proto::Sum<uint32_t>>(gpu::emu::Crew(block), 0, 1, plans[rank]);
  });
  for (Windows& result : out) {
    for (size_t i = 0; i < Windows::kWindow / 4; ++i) {
      ASSERT_EQ(result.words(0)[i], 7u) << i;
      ASSERT_EQ(result.words(Windows::kBytes - Windows::kWindow)[i], 70u) << i;
    }
  }
}

#endif

TEST(Split, ChannelsCoverEverythingOnceAndAligned) {
  for (uint32_t bytes : {1u, 2u, 4u, 8u, 16u}) {
    for (uint32_t channels : {1u, 2u, 3u, 24u, 32u}) {
      for (uint64_t count :
           {uint64_t{0}, uint64_t{1}, uint64_t{17}, uint64_t{4096}, uint64_t{1000003}, (uint64_t{1} << 40) + 5}) {
        uint64_t next = 0;
        for (uint32_t c = 0; c < channels; ++c) {
          const Range range = coll::device::channel_range(count, bytes, channels, c);
          EXPECT_EQ(range.first, next);
          EXPECT_TRUE(range.count == 0 || range.first * bytes % 16 == 0);
          EXPECT_LE(range.count, count / channels + 256 / bytes + 1);
          next = range.first + range.count;
        }
        EXPECT_EQ(next, count);
      }
    }
  }
}

TEST(Split, RoundsFitTheChunkAndGiveEveryRankWork) {
  for (uint32_t n : {2u, 3u, 8u}) {
    for (uint64_t left : {uint64_t{1}, uint64_t{100}, uint64_t{65536}, uint64_t{1000003}, uint64_t{1} << 35}) {
      const uint64_t chunk = coll::device::round_chunk(left, 4, n, 4096);
      EXPECT_LE(chunk, 4096u);
      EXPECT_EQ(chunk * 4 % 16, 0u);
      // Chunks of a few elements are rounded up to packs, which can leave the last ranks without.
      EXPECT_TRUE(left < 4 * n * n || chunk * (n - 1) < left) << "the last rank has nothing to do";
    }
  }
}

}  // namespace
}  // namespace gpucoll
