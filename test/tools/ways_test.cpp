// What gpucoll-tune measures, and what it concludes.
#include "tune/ways.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace gpucoll::tune {
namespace {

using core::Algorithm;
using core::Function;
using core::Protocol;

TEST(Ways, AreAllThatTheTunerKnows) {
  for (int f = 0; f < proto::kFunctions; ++f) {
    const auto function = static_cast<Function>(f);
    const std::vector<Way> ways = ways_of(function);
    const auto has = [&](Algorithm algorithm, Protocol protocol) {
      return std::any_of(ways.begin(), ways.end(), [=](const Way& way) {
        return way.kind == Way::Kind::timed && way.algorithm == algorithm && way.protocol == protocol;
      });
    };
    for (int a = 0; a < proto::kAlgorithms; ++a)
      for (int p = 0; p < proto::kProtocols; ++p)
        EXPECT_TRUE(!core::supported(function, static_cast<Algorithm>(a), static_cast<Protocol>(p)) ||
                    has(static_cast<Algorithm>(a), static_cast<Protocol>(p)))
            << core::name(function) << " " << a << " " << p;
    EXPECT_EQ(has(Algorithm::pairwise, Protocol::simple),
              function == Function::send_recv || core::is_exchange(function));
    EXPECT_TRUE(can_be_measured(function, true));
  }
  EXPECT_FALSE(can_be_measured(Function::scan, false));
  EXPECT_TRUE(can_be_measured(Function::all_to_all, false));
}

TEST(Ways, GiveEachLimitOnce) {
  int times[core::kLimits] = {};
  for (int f = 0; f < proto::kFunctions; ++f)
    for (const Way& way : ways_of(static_cast<Function>(f)))
      if (way.kind == Way::Kind::limit) ++times[static_cast<int>(way.limit)];
  for (int n : times) EXPECT_EQ(n, 1);
}

TEST(Ways, AreTakenFromWhereTheyAreFasterForGood) {
  EXPECT_FALSE(limit_of({}));
  EXPECT_EQ(limit_of({{8, 1, 2}, {64, 1, 2}}), 8u);
  EXPECT_EQ(limit_of({{8, 2, 1}, {64, 1, 2}, {512, 1, 2}}), 64u);
  EXPECT_EQ(limit_of({{8, 1, 2}, {64, 3, 2}, {512, 1, 2}}), 512u) << "once faster is not for good";
  EXPECT_EQ(limit_of({{8, 1, 2}, {64, 3, 2}}), 65u) << "not within what was measured";
}

}  // namespace
}  // namespace gpucoll::tune
