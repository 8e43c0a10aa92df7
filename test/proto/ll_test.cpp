// Primitives over LL.
#include <cstddef>

#include "proto/primitives_ll.h"

namespace gpucoll {
namespace {
using LinesUnderTest = proto::Ll;
}  // namespace
}  // namespace gpucoll
#include "lines_test.h"

namespace gpucoll {
namespace {

TEST(LlSlot, HasAPackInLinesOfTwoHalves) {
  const std::vector<uint32_t> data = {11, 12, 13, 14, 21, 22, 23};
  test::Link link(kShape, 5);
  proto::FaultLatch latch{};
  test::run_block(1, [&](const ThreadBlock& coop) {
    Prims<proto::Family<proto::Sum<uint32_t>>, Fan<0, 1>>(coop, {{}, {&link.sender}}, kShape, &latch,
                                                          {data.data(), nullptr}, {})
        .send(0, data.size());
  });
  const uint8_t* const slot = link.receiver.receive + proto::ReceiveBlock::ll_offset(kShape) + 5 * kShape.ll;
  const auto* const word = reinterpret_cast<const uint64_t*>(slot);
  const uint64_t flag = uint64_t{6} << 32, half = kShape.ll / 2 / sizeof(uint64_t);
  EXPECT_EQ(word[0], flag | 11);
  EXPECT_EQ(word[1], flag | 12);
  EXPECT_EQ(word[half], flag | 13);
  EXPECT_EQ(word[half + 1], flag | 14);
  EXPECT_EQ(word[2], flag | 21);
  EXPECT_EQ(word[3], flag | 22);
  EXPECT_EQ(word[half + 2], flag | 23);
  EXPECT_EQ(word[half + 3], flag | 0);
  EXPECT_EQ(word[4], 0u);
}

}  // namespace
}  // namespace gpucoll
