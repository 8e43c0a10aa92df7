// reduce_copy: all small sizes, all alignments, canaries around everything it must not touch.
#include "proto/reduce_copy.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "crew.h"

namespace gpucoll {
namespace {

using proto::Destinations;
using proto::Pair;
using proto::Sources;

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
template <class Red, int kSrcs>
void reference(Arena (&from)[kSrcs], uint8_t* to, uint64_t i) {
  using Access = proto::ElementAccess<typename Red::Element, false>;
  const uint64_t at = i * sizeof(typename Red::Element);
  auto value = Access::read(from[0].before(at));
  for (int s = 1; s < kSrcs; ++s) value = Red::apply(value, Access::read(from[s].before(at)));
  Access::write(to, value);
}

template <class Red>
void check(uint64_t n, size_t offset_a, size_t offset_b, size_t offset_c, int threads) {
  using T = typename Red::Element;
  const size_t bytes = n * sizeof(T);
  Arena from[2] = {{bytes, offset_a, n}, {bytes, offset_b, n + 1}};
  Arena to[2] = {{bytes, offset_c, 7}, {bytes, offset_a, 8}};
  test::run_block(threads, [&](const gpu::emu::Crew& crew) {
    const Sources<2> sources{{from[0].data(), from[1].data()}};
    const Destinations<2> destinations{{to[0].data(), to[1].data()}};
    proto::reduce_copy<Red>(crew, sources, destinations, n);
  });
  for (Arena& out : to) {
    for (uint64_t i = 0; i < n; ++i) {
      uint8_t want[sizeof(T)];
      std::memcpy(want, out.before(i * sizeof(T)), sizeof(T));
      reference<Red>(from, want, i);
      ASSERT_EQ(std::memcmp(out.data() + i * sizeof(T), want, sizeof(T)), 0)
          << "element " << i << " of " << n << ", offsets " << offset_a << " " << offset_b << " " << offset_c;
    }
    ASSERT_TRUE(out.margins_intact()) << n << " elements, offsets " << offset_a << " " << offset_b << " " << offset_c;
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

TEST(ReduceCopyOperands, AreTakenInTheOrderOfTheSources) {
  const std::vector<float> in[4] = {std::vector<float>(9, 1.0f), std::vector<float>(9, 1e8f),
                                    std::vector<float>(9, -1e8f), std::vector<float>(9, 0.5f)};
  std::vector<float> out(9);
  Sources<4> from;
  for (int s = 0; s < 4; ++s) from.at[s] = reinterpret_cast<const uint8_t*>(in[s].data());
  const Destinations<1> to{{reinterpret_cast<uint8_t*>(out.data())}};
  proto::reduce_copy<proto::Sum<float>>(proto::Solo{}, from, to, out.size());
  const float in_order = ((in[0][0] + in[1][0]) + in[2][0]) + in[3][0];
  EXPECT_NE(in_order, in[0][0] + (in[1][0] + (in[2][0] + in[3][0])));
  EXPECT_EQ(out, std::vector<float>(9, in_order));
}

TEST(ReduceCopyInPlace, ADestinationMayBeASource) {
  std::vector<uint32_t> a(333, 5), b(333, 7);
  const Sources<2> from{{reinterpret_cast<uint8_t*>(b.data()), reinterpret_cast<uint8_t*>(a.data())}};
  const Destinations<1> to{{reinterpret_cast<uint8_t*>(a.data())}};
  test::run_block(3,
                  [&](const gpu::emu::Crew& crew) { proto::reduce_copy<proto::Sum<uint32_t>>(crew, from, to, 333); });
  EXPECT_EQ(a, std::vector<uint32_t>(333, 12));
}

}  // namespace
}  // namespace gpucoll
