// Primitives over LL128.
#include <cstddef>

#include "proto/primitives_ll128.h"

namespace gpucoll {
namespace {
using LinesUnderTest = proto::Ll128;
}  // namespace
}  // namespace gpucoll
#include "lines_test.h"

namespace gpucoll {
namespace {

// The words of the slot of one step after n elements have been sent from step 5 on.
template <class T>
std::vector<uint64_t> slot_of_sent(const std::vector<T>& data) {
  test::Link link(kShape, 5);
  proto::FaultLatch latch{};
  test::run_block(1, [&](const ThreadBlock& coop) {
    Prims<proto::Family<proto::Sum<T>>, Fan<0, 1>>(coop, {{}, {&link.sender}}, kShape, &latch, {data.data(), nullptr},
                                                   {})
        .send(0, data.size());
  });
  const uint8_t* const slot = link.receiver.receive + proto::ReceiveBlock::ll128_offset(kShape) + 5 * kShape.ll128;
  const auto* const words = reinterpret_cast<const uint64_t*>(slot);
  return {words, words + kShape.ll128 / sizeof(uint64_t)};
}

TEST(Ll128Slot, HasFifteenWordsAndTheFlagInALine) {
  std::vector<uint64_t> data(17);
  for (size_t i = 0; i < data.size(); ++i) data[i] = 100 + i;
  const std::vector<uint64_t> words = slot_of_sent(data);
  for (size_t i = 0; i < 15; ++i) EXPECT_EQ(words[i], 100 + i);
  EXPECT_EQ(words[15], 6u);
  EXPECT_EQ(words[16], 115u);
  EXPECT_EQ(words[17], 116u);
  EXPECT_EQ(words[18], 0u);
  EXPECT_EQ(words[31], 6u);
}

TEST(Ll128Slot, CutsNoElementOf16Bytes) {
  const std::vector<proto::Complex<double>> data(8, {2.0, 3.0});
  const std::vector<uint64_t> words = slot_of_sent(data);
  EXPECT_EQ(words[12], __builtin_bit_cast(uint64_t, 2.0));
  EXPECT_EQ(words[13], __builtin_bit_cast(uint64_t, 3.0));
  EXPECT_EQ(words[14], 0u);
  EXPECT_EQ(words[15], 6u);
  EXPECT_EQ(words[16], __builtin_bit_cast(uint64_t, 2.0));
  EXPECT_EQ(words[17], __builtin_bit_cast(uint64_t, 3.0));
  EXPECT_EQ(words[18], 0u);
}

}  // namespace
}  // namespace gpucoll
