// In which channels the parts of messages travel.
#include "proto/pairs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace gpucoll::proto {
namespace {

constexpr uint32_t kMostChannels = 64;

std::vector<uint32_t> channels_of(uint32_t distance, uint32_t parts, uint32_t n_channels) {
  std::vector<uint32_t> channels;
  for (uint32_t part = 0; part < parts; ++part) channels.push_back(pair_channel(distance, part, n_channels));
  std::ranges::sort(channels);
  return channels;
}

TEST(Pairs, PartsOfAMessageLieEquallyFarApart) {
  for (uint32_t n = 1; n <= kMostChannels; n *= 2)
    for (uint32_t parts = 1; parts <= n; parts *= 2)
      for (uint32_t distance = 0; distance < 2 * n; ++distance) {
        const std::vector<uint32_t> channels = channels_of(distance, parts, n);
        for (uint32_t i = 0; i < parts; ++i)
          ASSERT_EQ(channels[i], channels[0] + i * (n / parts)) << parts << " parts in " << n << " channels";
      }
}

// As many messages over neighbouring distances as have room beside each other share no channel.
TEST(Pairs, NeighbouringDistancesFillTheGaps) {
  for (uint32_t n = 1; n <= kMostChannels; n *= 2)
    for (uint32_t parts = 1; parts <= n; parts *= 2) {
      std::vector<int> used(n);
      for (uint32_t distance = 3; distance < 3 + n / parts; ++distance)
        for (uint32_t channel : channels_of(distance, parts, n)) ++used[channel];
      EXPECT_EQ(used, std::vector<int>(n, 1)) << parts << " parts in " << n << " channels";
    }
}

TEST(Pairs, EachChannelKnowsItsPart) {
  for (uint32_t n = 1; n <= kMostChannels; n *= 2)
    for (uint32_t distance = 0; distance < 2 * n; ++distance)
      for (uint32_t part = 0; part < n; ++part)
        ASSERT_EQ(pair_part(distance, pair_channel(distance, part, n), n), part);
}

}  // namespace
}  // namespace gpucoll::proto
