// reduce_copy: all small sizes, all alignments, canaries around everything it must not touch.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "proto/family.h"
#include "thread_block.h"

namespace gpucoll {
namespace {

using proto::Operands;
using proto::Pair;
using proto::Reduction;

// From the first `n_from` to the first `n_to` of these.
template <class Arenas>
Operands operands_of(Arenas& from, int n_from, Arenas& to, int n_to) {
  Operands operands{};
  operands.n_from = n_from;
  operands.n_to = n_to;
  for (int s = 0; s < n_from; ++s) operands.from[s] = from[static_cast<size_t>(s)].data();
  for (int d = 0; d < n_to; ++d) operands.to[d] = to[static_cast<size_t>(d)].data();
  return operands;
}

// Bytes at a chosen offset from a 16-byte boundary, with a margin on both sides.
class Arena {
 public:
  static constexpr size_t kMargin = 64;
  Arena(size_t bytes, size_t offset, uint64_t seed) : block_(bytes + 2 * kMargin + 32), bytes_(bytes) {
    std::mt19937 random(static_cast<uint32_t>(seed));
    for (uint8_t& byte : block_) byte = static_cast<uint8_t>(random());
    const uintptr_t start = reinterpret_cast<uintptr_t>(block_.data()) + kMargin;
    data_ = block_.data() + kMargin + ((16 - start % 16) % 16 + offset);
    before_ = block_;
  }
  uint8_t* data() { return data_; }
  uint8_t* before(uint64_t byte) { return before_.data() + (data_ - block_.data()) + byte; }
  // True when nothing outside the data has changed.
  bool margins_intact() const {
    const size_t at = static_cast<size_t>(data_ - block_.data());
    return std::memcmp(block_.data(), before_.data(), at) == 0 &&
           std::memcmp(data_ + bytes_, before_.data() + at + bytes_, block_.size() - at - bytes_) == 0;
  }

 private:
  std::vector<uint8_t> block_, before_;
  size_t bytes_;
  uint8_t* data_;
};

// Puts op over the sources into `to`, as the contract says, keeping what is padding there.
template <class Red>
void reference(std::vector<Arena>& from, int n_from, uint8_t* to, uint64_t i) {
  using Access = proto::ElementAccess<typename Red::Element, false>;
  const uint64_t at = i * sizeof(typename Red::Element);
  auto value = Access::read(from[0].before(at));
  for (size_t s = 1; s < static_cast<size_t>(n_from); ++s) value = Red::apply(value, Access::read(from[s].before(at)));
  Access::write(to, value);
}

// n elements of a family of one reduction, from n_from sources to n_to destinations.
template <class Red>
void check(uint64_t n, size_t offset_a, size_t offset_b, size_t offset_c, int threads, int n_from = 2, int n_to = 2) {
  using T = typename Red::Element;
  const size_t bytes = n * sizeof(T);
  std::vector<Arena> from, to;
  const size_t from_offsets[] = {offset_a, offset_b, offset_c}, to_offsets[] = {offset_c, offset_a, offset_b};
  for (size_t k = 0; k < 3; ++k) {
    from.emplace_back(bytes, from_offsets[k], n + k);
    to.emplace_back(bytes, to_offsets[k], 7 + k);
  }
  const Operands operands = operands_of(from, n_from, to, n_to);
  test::run_block(threads, [&](const gpu::emu::ThreadBlock& coop) {
    proto::reduce_copy<proto::Family<Red>>(coop, operands, n, Reduction{});
  });
  for (size_t d = 0; d < 3; ++d) {
    for (uint64_t i = 0; i < n; ++i) {
      uint8_t want[sizeof(T)];
      std::memcpy(want, to[d].before(i * sizeof(T)), sizeof(T));
      if (d < static_cast<size_t>(n_to)) reference<Red>(from, n_from, want, i);
      ASSERT_EQ(std::memcmp(to[d].data() + i * sizeof(T), want, sizeof(T)), 0)
          << "element " << i << " of " << n << ", offsets " << offset_a << " " << offset_b << " " << offset_c;
    }
    ASSERT_TRUE(to[d].margins_intact()) << n << " elements, offsets " << offset_a << " " << offset_b << " " << offset_c;
  }
}

template <class Red>
class ReduceCopy : public testing::Test {};
// Sums of random bit patterns: floats are left to the other tests, where NaN does not get in the way.
using Reductions = testing::Types<proto::Sum<uint8_t>, proto::Sum<uint16_t>, proto::Max<int32_t>, proto::Sum<uint64_t>,
                                  proto::Maxloc<Pair<int32_t, int32_t>>, proto::Maxloc<Pair<int16_t, int32_t>>,
                                  proto::Minloc<Pair<int64_t, int32_t>>, proto::Sum<proto::Complex<uint64_t>>>;
TYPED_TEST_SUITE(ReduceCopy, Reductions);

TYPED_TEST(ReduceCopy, EverySizeWithEveryCommonOffset) {
  for (uint64_t n = 0; n <= 200; ++n) {
    for (size_t offset = 0; offset < 16; ++offset) check<TypeParam>(n, offset, offset, offset, 1);
  }
}

TYPED_TEST(ReduceCopy, OffsetsThatDisagree) {
  for (uint64_t n : {1, 2, 3, 17, 64, 65, 200}) {
    for (size_t a = 0; a < 16; ++a) {
      for (size_t b = 0; b < 16; b += 3) check<TypeParam>(n, a, b, 8, 1);
    }
  }
}

TYPED_TEST(ReduceCopy, SeveralThreadsShareTheWork) {
  for (int threads : {2, 3, 5}) {
    for (uint64_t n : {1, 5, 63, 200, 1000}) {
      check<TypeParam>(n, 0, 0, 0, threads);
      check<TypeParam>(n, 8, 8, 8, threads);
      check<TypeParam>(n, 1, 2, 3, threads);
    }
  }
}

TYPED_TEST(ReduceCopy, AnyNumberOfOperands) {
  for (int n_from : {1, 2, 3}) {
    for (int n_to : {1, 2, 3}) {
      for (uint64_t n : {1, 33, 200}) {
        for (int threads : {1, 3}) {
          check<TypeParam>(n, 8, 8, 8, threads, n_from, n_to);
          check<TypeParam>(n, 4, 4, 8, threads, n_from, n_to);
          check<TypeParam>(n, 5, 3, 6, threads, n_from, n_to);
        }
      }
    }
  }
}

// As many bytes apart as the widest unit that all addresses allow.
TEST(CopyOfBytes, EverySizeAndOffset) {
  for (size_t apart = 0; apart < 16; ++apart) {
    for (uint64_t n : {0, 1, 2, 7, 15, 16, 17, 31, 100, 1001}) {
      for (size_t offset = 0; offset < 16; ++offset) {
        std::vector<Arena> from, to;
        from.emplace_back(n, offset, n);
        to.emplace_back(n, (offset + apart) % 16, 3);
        to.emplace_back(n, offset, 4);
        const Operands operands = operands_of(from, 1, to, 2);
        test::run_block(apart == 4 ? 3 : 1, [&](const gpu::emu::ThreadBlock& coop) {
          proto::reduce_copy<proto::Bytes>(coop, operands, n, Reduction{});
        });
        for (Arena& out : to) {
          ASSERT_TRUE(n == 0 || std::memcmp(out.data(), from[0].data(), n) == 0) << n << " " << offset << " " << apart;
          ASSERT_TRUE(out.margins_intact()) << n << " " << offset << " " << apart;
        }
      }
    }
  }
}

TEST(ReduceCopyOperands, AreTakenInTheOrderOfTheSources) {
  const std::vector<float> in[3] = {std::vector<float>(9, 1.0f), std::vector<float>(9, 1e8f),
                                    std::vector<float>(9, -1e8f)};
  std::vector<float> out(9);
  Operands operands{};
  for (int s = 0; s < 3; ++s) operands.from[s] = reinterpret_cast<const uint8_t*>(in[s].data());
  operands.to[0] = reinterpret_cast<uint8_t*>(out.data());
  operands.n_from = 3;
  operands.n_to = 1;
  proto::reduce_copy<proto::Family<proto::Sum<float>>>(proto::Solo{}, operands, out.size(), Reduction{});
  const float in_order = (in[0][0] + in[1][0]) + in[2][0];
  EXPECT_NE(in_order, in[0][0] + (in[1][0] + in[2][0]));
  EXPECT_EQ(out, std::vector<float>(9, in_order));
}

// Which of the hooks apply, by number of sources, and whether the last is the own contribution and the result complete.
TEST(ReduceCopyHooks, ApplyToTheOwnContributionAndToTheCompleteResult) {
  using Ints = proto::Family<proto::Max<int32_t>, proto::Avg<int32_t>, proto::PreMulSum<int32_t>>;
  constexpr size_t kN = 70;
  std::vector<int32_t> in[3] = {std::vector<int32_t>(kN, -100), std::vector<int32_t>(kN, 20),
                                std::vector<int32_t>(kN, 7)};
  for (size_t offset : {size_t{0}, sizeof(int32_t), size_t{2}}) {  // packs, elements, and unaligned
    for (int n_from : {1, 2, 3}) {
      for (uint8_t op : {0, 1, 2}) {
        for (const bool own : {false, true}) {
          for (const bool complete : {false, true}) {
            std::vector<uint8_t> out(kN * sizeof(int32_t) + 16);
            Operands operands{{}, {out.data() + offset, out.data()}, n_from, 1, own, complete};
            for (int s = 0; s < n_from; ++s) operands.from[s] = reinterpret_cast<const uint8_t*>(in[s].data());
            const Reduction reduction{op, op == 1 ? uint64_t{9} : uint64_t{5}, 0};
            proto::reduce_copy<Ints>(proto::Solo{}, operands, kN, reduction);

            int32_t want = 0;
            for (int s = 0; s < n_from; ++s) {
              const int32_t x = in[s][0] * (own && op == 2 && s == n_from - 1 ? 5 : 1);
              want = s == 0 ? x : op == 0 ? std::max(want, x) : want + x;
            }
            if (op == 1 && complete) want /= 9;
            for (size_t i = 0; i < kN; ++i) {
              const int32_t got = proto::load_unaligned<int32_t>(out.data() + offset + i * sizeof(int32_t));
              ASSERT_EQ(got, want) << n_from << " sources, op " << int{op} << ", element " << i;
            }
          }
        }
      }
    }
  }
}

TEST(ReduceCopyInPlace, ADestinationMayBeASource) {
  std::vector<uint32_t> a(333, 5), b(333, 7), c(333, 9);
  Operands operands{{reinterpret_cast<uint8_t*>(b.data()), reinterpret_cast<uint8_t*>(a.data())},
                    {reinterpret_cast<uint8_t*>(a.data())},
                    2,
                    1,
                    true,
                    true};
  const auto run = [&](const gpu::emu::ThreadBlock& coop) {
    proto::reduce_copy<proto::Family<proto::Sum<uint32_t>>>(coop, operands, 333, Reduction{});
  };
  test::run_block(3, run);
  EXPECT_EQ(a, std::vector<uint32_t>(333, 12));
  // A copy onto itself, and elsewhere as well.
  operands = {{reinterpret_cast<uint8_t*>(a.data())},
              {reinterpret_cast<uint8_t*>(c.data()), reinterpret_cast<uint8_t*>(a.data())},
              1,
              2,
              true,
              false};
  test::run_block(3, run);
  EXPECT_EQ(a, std::vector<uint32_t>(333, 12));
  EXPECT_EQ(c, a);
}

TEST(Families, KnowTheirReductions) {
  using Ints = proto::Family<proto::Sum<uint8_t>, proto::Max<int8_t>, proto::Max<uint8_t>, proto::Avg<int8_t>,
                             proto::PreMulSum<uint8_t>>;
  static_assert(Ints::kOps == 5 && Ints::kPre == 1 << 4 && Ints::kPost == 1 << 3);
  static_assert(proto::family_place<proto::Max<uint8_t>>(Ints{}) == 2);
  static_assert(proto::family_place<proto::Min<uint8_t>>(Ints{}) == -1);
  const uint8_t a = 0x80, b = 1;
  const uint8_t want[] = {0x81, 1, 0x80, 0x81, 0x81};
  for (uint8_t op = 0; op < Ints::kOps; ++op) {
    uint8_t out = 0;
    const Operands operands{{&a, &b}, {&out}, 2, 1, false, false};
    proto::reduce_copy<Ints>(proto::Solo{}, operands, 1, Reduction{op, 0, 0});
    EXPECT_EQ(out, want[op]) << int{op};
  }
}

}  // namespace
}  // namespace gpucoll
