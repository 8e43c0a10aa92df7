// The collectives by ring and tree over all protocols through run_plan, compared with the order of reduction that they
// promise.
#include <sys/mman.h>
#include <unistd.h>

#include "collective_case.h"

namespace gpucoll {
namespace {

using proto::Algorithm;
using proto::Function;
using proto::Protocol;
using test::Case;

constexpr Protocol kProtocols[] = {Protocol::simple, Protocol::ll, Protocol::ll128};
// ThreadSanitizer, which is slow, sees every other number of ranks.
#if defined(__SANITIZE_THREAD__)
constexpr int kStep = 2;
#else
constexpr int kStep = 1;
#endif

using Floats = proto::Sum<float>;

// Few, as each is a kernel to compile.
using Words = proto::Family<Floats, proto::Sum<uint32_t>, proto::Avg<float>>;
using Doubles = proto::Family<proto::Max<double>, proto::PreMulSum<double>>;
template <class Red>
auto family_of() {
  if constexpr (sizeof(typename Red::Element) == 4)
    return Words{};
  else if constexpr (std::is_same_v<typename Red::Element, double>)
    return Doubles{};
  else
    return proto::Family<Red>{};
}
template <class Red>
void run(Case c) {
  using Family = decltype(family_of<Red>());
  c.reduction.op = static_cast<uint8_t>(proto::family_place<Red>(Family{}));
  test::run_case<Red>(&test::family_kernel<Family>, c);
}

struct Way {
  Function function;
  Algorithm algorithm;
};
constexpr Way kReductions[] = {{Function::all_reduce, Algorithm::ring},
                               {Function::reduce, Algorithm::ring},
                               {Function::reduce_scatter, Algorithm::ring},
                               {Function::all_reduce, Algorithm::tree}};
constexpr Way kScans[] = {{Function::scan, Algorithm::ring}, {Function::exscan, Algorithm::ring}};
constexpr Way kMoves[] = {{Function::broadcast, Algorithm::ring}, {Function::all_gather, Algorithm::ring}};

class Collectives : public testing::TestWithParam<int> {  // the parameter: threads a block
 protected:
  template <class Red, class Change>
  void run_each(const Way& way, const Change& change) {
    for (Protocol protocol : kProtocols) {
      Case c{way.function, way.algorithm, protocol, 3, 1, GetParam(), 100};
      change(c);
      run<Red>(c);
    }
  }
  template <class Red, class Change>
  void run_reductions(const Change& change) {
    for (const Way& way : kReductions) run_each<Red>(way, change);
  }
  template <class Red, class Change>
  void run_scans(const Change& change) {
    for (const Way& way : kScans) run_each<Red>(way, change);
  }
  // All functions by all algorithms over all protocols.
  template <class Red, class Change>
  void run_all(const Change& change) {
    run_reductions<Red>(change);
    run_scans<Red>(change);
    for (const Way& way : kMoves) run_each<Red>(way, change);
  }
};

TEST_P(Collectives, EveryNumberOfRanksAndOddCounts) {
  for (int n = 1; n <= 5; n += kStep) {
    for (uint64_t count : {1, 3, 31, 127, 1000}) {
      if (count == 31 && kStep > 1) continue;
      run_all<Floats>([&](Case& c) {
        c.n_ranks = n;
        c.count = count;
        c.root = static_cast<int>(count) % n;
      });
    }
  }
}

TEST_P(Collectives, InPlaceAtEveryRoot) {
  for (int root = 0; root < 3; ++root) {
    for (uint64_t count : {5, 700}) {
      run_all<Floats>([&](Case& c) {
        c.count = count;
        c.root = root;
        c.in_place = true;
      });
    }
  }
}

TEST_P(Collectives, SeveralChannelsNotFromTheFirstOn) {
  for (uint64_t count : {1, 100, 2001}) {
    run_all<Floats>([&](Case& c) {
      c.n_channels = 3;
      c.first_channel = 2;
      c.count = count;
      c.root = 1;
    });
  }
}

TEST_P(Collectives, CountersWrap) {
  for (uint64_t before : {1, 8, 16, 40}) {
    run_all<proto::Sum<uint32_t>>([&](Case& c) {
      c.count = 1500;
      c.first_step = uint64_t{0} - before;
    });
  }
  run_all<proto::Sum<uint32_t>>([&](Case& c) {
    c.count = 1500;
    c.first_step = (uint64_t{1} << 32) - 8;  // where the flags of LL and LL128 wrap
  });
}

TEST_P(Collectives, ItemsRunOneAfterAnother) {
  for (bool in_fifo : {false, true}) {
    run_all<Floats>([&](Case& c) {
      c.n_channels = 2;
      c.items = 20;
      c.count = 77;
      c.in_fifo = in_fifo;
      if (!in_fifo) c.items = 4;
    });
  }
}

TEST_P(Collectives, ChunksSmallerThanTheConnectionAllows) {
  run_all<proto::Max<double>>([&](Case& c) {
    c.count = 3000;
    c.slot_bytes = 1024;
    c.chunk_bytes = 300;  // counts as 256
  });
  run_all<proto::Max<double>>([&](Case& c) {
    c.count = 30000;
    c.slot_bytes = 16384;
  });
}

TEST_P(Collectives, HooksApplyOnce) {
  for (int n : {1, 3}) {
    run_reductions<proto::Avg<float>>([&](Case& c) {
      c.n_ranks = n;
      c.reduction.argument = static_cast<uint64_t>(n);
    });
    for (bool in_memory : {false, true}) {
      const auto change = [&](Case& c) {
        c.n_ranks = n;
        const double scalar = 1.5;
        std::memcpy(&c.reduction.argument, &scalar, sizeof scalar);
        c.scalar_in_memory = c.in_place = in_memory;
      };
      run_reductions<proto::PreMulSum<double>>(change);
      run_scans<proto::PreMulSum<double>>(change);
    }
  }
}

TEST_P(Collectives, TreesOfEveryShape) {
  for (int n = 1; n <= 8; n += kStep) {
    for (uint64_t count : {1, 100, 1200}) {
      run_each<Floats>({Function::all_reduce, Algorithm::tree}, [&](Case& c) {
        c.n_ranks = n;
        c.n_channels = 2;
        c.count = count;
        c.in_place = n % 2 == 0;
      });
    }
  }
}

// Elements are copied in other units than they are reduced in, so by other threads.
TEST_P(Collectives, ExscanKeepsWhatCameInPlaceOfTheInput) {
  for (int n : {2, 3, 5}) {
    run_each<proto::Sum<proto::Complex<double>>>({Function::exscan, Algorithm::ring}, [&](Case& c) {
      c.n_ranks = n;
      c.count = 301;
      c.in_place = true;
      c.send_offset = 8;
    });
  }
}

// What has direct stores, with any of the ranks looking for grants and any granting.
class Direct : public Collectives {
 protected:
  template <class Red, class Change>
  void run_direct(const Change& change) {
    for (const Way& way : {Way{Function::all_reduce, Algorithm::ring}, kMoves[0], kMoves[1]}) {
      Case c{way.function, way.algorithm, Protocol::simple, 3, 1, GetParam(), 100};
      c.looks = c.grants = ~0u;
      change(c);
      run<Red>(c);
    }
  }
};

TEST_P(Direct, WhoeverGrants) {
  for (uint32_t who = 0; who < 64; who += 1 + 6 * (kStep - 1)) {
    run_direct<Floats>([&](Case& c) {
      c.looks = who % 8;
      c.grants = who / 8;
      c.count = 700 + who;
      c.items = 3;
      c.in_place = who % 3 == 0;
      c.root = static_cast<int>(who % 3);
    });
  }
}

TEST_P(Direct, EveryNumberOfRanksAndOddCounts) {
  for (int n = 1; n <= 5; n += kStep) {
    for (uint64_t count : {1, 31, 127, 1000, 5000}) {
      for (bool in_place : {false, true}) {
        run_direct<Floats>([&](Case& c) {
          c.n_ranks = n;
          c.count = count;
          c.in_place = in_place;
          c.root = static_cast<int>(count) % n;
        });
      }
    }
  }
}

// Some of which have nothing to do, and so no step for a grant.
TEST_P(Direct, SeveralChannelsAndItems) {
  for (uint64_t count : {1, 7, 100, 2001}) {
    for (uint64_t before : {0, 6, 16}) {
      run_direct<proto::Sum<uint32_t>>([&](Case& c) {
        c.n_channels = 3;
        c.first_channel = 2;
        c.count = count;
        c.items = 4;
        c.first_step = uint64_t{0} - before;
        c.in_place = before == 6;
      });
    }
  }
}

TEST_P(Direct, EveryAlignment) {
  run_direct<proto::Sum<uint8_t>>([&](Case& c) {
    c.count = 1333;
    c.send_offset = 3;
    c.recv_offset = 6;
  });
  run_direct<proto::Avg<float>>([&](Case& c) {
    c.count = 611;
    c.send_offset = 8;
    c.recv_offset = 4;
    c.reduction.argument = 3;
  });
}

INSTANTIATE_TEST_SUITE_P(Threads, Direct, testing::Values(1, 3));

#if !defined(__SANITIZE_THREAD__)  // nothing new for it

TEST_P(Collectives, EveryElementSizeAndAlignment) {
  for (uint64_t count : {1, 130, 611}) {
    const auto change = [&](Case& c) {
      c.n_channels = 2;
      c.count = count;
      c.send_offset = count == 611 ? 8 : 0;
    };
    run_all<proto::Sum<uint8_t>>(change);
    run_all<proto::Sum<proto::Complex<double>>>(change);
  }
  run_all<proto::Sum<uint8_t>>([&](Case& c) {
    c.count = 333;
    c.send_offset = 3;
    c.recv_offset = 6;
  });
}

// What is reduced and copied by a reduction's algorithm leaves padding alone.
TEST_P(Collectives, PaddingStays) {
  for (bool in_place : {false, true}) {
    const auto change = [&](Case& c) {
      c.n_channels = 2;
      c.count = 301;
      c.in_place = in_place;
    };
    run_reductions<proto::Maxloc<proto::ShortInt>>(change);
    run_scans<proto::Maxloc<proto::ShortInt>>(change);
  }
}

#endif

INSTANTIATE_TEST_SUITE_P(Threads, Collectives, testing::Values(1, 3));

// One rank of two runs.
TEST(CollectivesFault, LatchEndsEveryWait) {
  const Way ways[] = {kReductions[0], kReductions[1], kReductions[2], kReductions[3],
                      kScans[0],      kScans[1],      kMoves[0],      kMoves[1]};
  for (const Way& way : ways) {
    for (Protocol protocol : kProtocols) {
      test::World world(2, 2, 128);
      std::vector<float> data(20000, 1.0f);
      proto::WorkItem item{};
      item.collective.send = item.collective.recv = data.data();
      item.collective.count = 4000;
      item.collective.n_channels = 2;
      test::PlanMaker maker(3);
      maker.add({0, way.function, way.algorithm, protocol, 0, 0, 0}, {item, item});
      test::expect_latch_ends(world, maker.make(false), 3, test::family_kernel<Words>);
    }
  }
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

TEST(CollectivesHuge, OffsetsAre64BitsWide) {
  constexpr int kRanks = 2;
  test::World world(kRanks, 1, 1 << 20);
  Windows in[kRanks]{Windows(3), Windows(4)}, out[kRanks]{Windows(0), Windows(0)};
  std::vector<test::PlanMaker> plans(kRanks, test::PlanMaker(1));
  for (size_t r = 0; r < kRanks; ++r) {
    proto::WorkItem item{};
    item.collective.send = in[r].words(0);
    item.collective.recv = out[r].words(0);
    item.collective.count = Windows::kBytes / 4;
    item.collective.n_channels = 1;
    plans[r].add({0, Function::all_reduce, Algorithm::ring, Protocol::simple, 1, 0, 0}, {item});
  }
  // 8 GiB by two threads take half a minute, and where others work beside them, several.
  test::run_plans(&test::family_kernel<Words>, world, plans, 1, false, std::chrono::minutes(10));
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
          const coll::device::Range range = coll::device::channel_range(count, bytes, channels, c);
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

TEST(Split, PartsOfAMessageCoverItInWholeLines) {
  for (uint32_t parts : {1u, 2u, 8u, 32u}) {
    for (uint64_t bytes : {uint64_t{0}, uint64_t{1}, uint64_t{5000}, uint64_t{1000003}, (uint64_t{1} << 40) + 5}) {
      uint64_t next = 0;
      for (uint32_t p = 0; p < parts; ++p) {
        const coll::device::Range range = coll::device::pair_range(bytes, parts, p);
        EXPECT_EQ(range.first, next);
        EXPECT_TRUE(range.count == 0 || range.first % (bytes / parts >= 4096 ? 128 : 16) == 0);
        next = range.first + range.count;
      }
      EXPECT_EQ(next, bytes);
    }
  }
}

TEST(Split, ChunksOfAChainAreLessWhereTheChainIsLong) {
  EXPECT_EQ(coll::device::pipeline_chunk(1000, 3, 1 << 20), 16u << 10) << "little goes at once";
  EXPECT_EQ(coll::device::pipeline_chunk(1 << 20, 3, 4096), 4096u) << "never more than fits";
  uint64_t last = 1 << 20;
  for (uint32_t hops : {1u, 2u, 8u, 64u}) {
    const uint64_t chunk = coll::device::pipeline_chunk(8 << 20, hops, 1 << 20);
    EXPECT_LE(chunk, last);
    last = chunk;
  }
}

}  // namespace
}  // namespace gpucoll
