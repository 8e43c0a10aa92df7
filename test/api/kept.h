// What the tests of kept operations and of kept messages have in common.
#pragma once
#include "ranks.h"

namespace gpucoll_test {

inline constexpr int kRanks = 2;
inline constexpr int kTimes = 6;  // as often an operation comes until it is kept for certain
inline constexpr size_t kCount = 5;
inline constexpr size_t kBytes = kCount * sizeof(int32_t);
using Ints = std::vector<int32_t>;

}  // namespace gpucoll_test
