// The generator and the reference of gpucoll-perf: if these were blind, every other check of a result would be.
#include "perf/data.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "perf/small_floats.h"
#include "perf/types.h"

namespace gpucoll::perf {
namespace {

constexpr size_t kCount = 2000;

std::vector<char> made(const Recipe& recipe, int rank, uint64_t first = 0, size_t count = kCount) {
  std::vector<char> out(count * info(recipe.type).bytes);
  generate(recipe, rank, first, count, out.data());
  return out;
}

size_t differences(Type type, const std::vector<char>& a, const std::vector<char>& b) {
  size_t first = 0;
  return count_wrong(type, a.data(), b.data(), a.size() / info(type).bytes, &first);
}

template <class F>
void for_each_combination(F&& f) {
  for (int t = 0; t < kTypes; ++t)
    for (int o = 0; o < kOps; ++o)
      if (fits(static_cast<Type>(t), static_cast<Op>(o))) f(static_cast<Type>(t), static_cast<Op>(o));
}

TEST(PerfData, DependsOnRankIndexAndRun) {
  for_each_combination([](Type type, Op op) {
    Recipe recipe{type, op, true, true, 3, 1};
    Recipe later = recipe;
    later.run = 2;
    std::string what = std::string(info(type).name) + " " + name(op);
    EXPECT_EQ(differences(type, made(recipe, 0), made(recipe, 0)), 0u) << what;
    EXPECT_GT(differences(type, made(recipe, 0), made(recipe, 1)), kCount / 10) << what;
    EXPECT_GT(differences(type, made(recipe, 0), made(later, 0)), kCount / 10) << what;
    EXPECT_GT(differences(type, made(recipe, 0), made(recipe, 0, 1)), kCount / 10) << what;
  });
}

TEST(PerfData, PiecesMakeTheWhole) {
  Recipe recipe{Type::complex64, Op::sum, true, true, 2, 7};
  std::vector<char> whole = made(recipe, 1), parts = made(recipe, 1, 0, 700), rest = made(recipe, 1, 700, kCount - 700);
  parts.insert(parts.end(), rest.begin(), rest.end());
  EXPECT_EQ(whole, parts);
}

// No rounding: any order of the ranks gives the same bits, or the comparison with == would not be fair.
TEST(PerfData, EveryOrderGivesTheSameValues) {
  constexpr int kRanks = 33;
  for_each_combination([](Type type, Op op) {
    Recipe recipe{type, op, true, true, kRanks, 5};
    std::vector<char> up = made(recipe, 0), down = made(recipe, kRanks - 1);
    for (int i = 1; i < kRanks; ++i) {
      combine(type, op, made(recipe, i).data(), up.data(), kCount);
      combine(type, op, made(recipe, kRanks - 1 - i).data(), down.data(), kCount);
    }
    EXPECT_EQ(differences(type, up, down), 0u) << info(type).name << " " << name(op);
  });
}

// A fingerprint is there to tell orders apart.
TEST(PerfData, InexactSumsTellTheirOrder) {
  for (const Type type : {Type::float32, Type::float64, Type::complex64}) {
    for (const Op op : {Op::sum, Op::prod}) {
      Recipe recipe{type, op, true, true, 3, 0};
      recipe.inexact = true;
      std::vector<char> up = made(recipe, 0), down = made(recipe, 2);
      for (int rank : {1, 2}) combine(type, op, made(recipe, rank).data(), up.data(), kCount);
      for (int rank : {1, 0}) combine(type, op, made(recipe, rank).data(), down.data(), kCount);
      EXPECT_GT(differences(type, up, down), kCount / 20) << info(type).name << " " << name(op);
      EXPECT_LT(differences(type, up, down), kCount) << info(type).name << " " << name(op);
    }
  }
}

TEST(PerfData, ResultsAreNotAllTheSame) {
  constexpr int kRanks = 4;
  for_each_combination([](Type type, Op op) {
    Recipe recipe{type, op, true, true, kRanks, 5};
    std::vector<char> result = made(recipe, 0);
    for (int i = 1; i < kRanks; ++i) combine(type, op, made(recipe, i).data(), result.data(), kCount);
    std::vector<char> first(result.begin(), result.begin() + static_cast<long>(info(type).bytes)), repeated;
    for (size_t i = 0; i < kCount; ++i) repeated.insert(repeated.end(), first.begin(), first.end());
    EXPECT_GT(differences(type, result, repeated), kCount / 20) << info(type).name << " " << name(op);
  });
}

TEST(PerfData, SmallTypesStayInRangeWhereTheyMust) {
  constexpr int kRanks = 7;
  Recipe recipe{Type::int8, Op::sum, true, false, kRanks, 3};
  std::vector<int> sums(kCount);
  for (int rank = 0; rank < kRanks; ++rank) {
    std::vector<char> part = made(recipe, rank);
    for (size_t i = 0; i < kCount; ++i) sums[i] += static_cast<int8_t>(part[i]);
  }
  for (int sum : sums) EXPECT_TRUE(sum >= -128 && sum <= 127) << sum;
}

template <class T>
T combined(Type type, Op op, T a, T b) {
  combine(type, op, &a, &b, 1);
  return b;
}

TEST(PerfData, ReferenceKnowsTheOperations) {
  EXPECT_EQ(combined<int8_t>(Type::int8, Op::sum, 100, 100), -56);  // wraps, as two's complement does
  EXPECT_EQ(combined<uint16_t>(Type::uint16, Op::prod, 65535, 65535), 1);
  EXPECT_EQ(combined<int32_t>(Type::int32, Op::max, -5, 3), 3);
  EXPECT_EQ(combined<uint32_t>(Type::uint32, Op::min, 0xffffffffu, 3), 3u);
  EXPECT_EQ(combined<int64_t>(Type::int64, Op::lxor, 7, 9), 0);
  EXPECT_EQ(combined<uint8_t>(Type::byte, Op::bxor, 0xf0, 0xff), 0x0f);
  EXPECT_EQ(combined<uint8_t>(Type::uint8, Op::land, 4, 2), 1);
  EXPECT_EQ(combined<float>(Type::float32, Op::prod, -2, 0.5), -1);
}

TEST(PerfData, PairsTakeTheSmallerIndexOfEqualValues) {
  using P = Pair<float, int>;
  P tie = combined<P>(Type::float_int, Op::maxloc, {2, 9}, {2, 4});
  EXPECT_EQ(tie.index, 4);
  P least = combined<P>(Type::float_int, Op::minloc, {1, 9}, {2, 4});
  EXPECT_EQ(least.value, 1);
  EXPECT_EQ(least.index, 9);
}

TEST(PerfData, OneFlippedValueBitIsSeen) {
  for (int t = 0; t < kTypes; ++t) {
    Type type = static_cast<Type>(t);
    Recipe recipe{type, Op::sum, false, true, 2, 1};
    std::vector<char> good = made(recipe, 0), bad = good;
    size_t bytes = info(type).bytes, at = 0;
    bad[1234 * bytes] ^= 1;
    EXPECT_EQ(count_wrong(type, bad.data(), good.data(), kCount, &at), 1u) << info(type).name;
    EXPECT_EQ(at, 1234u) << info(type).name;
    EXPECT_NE(hash_values(type, 0, bad.data(), kCount), hash_values(type, 0, good.data(), kCount)) << info(type).name;
  }
}

TEST(SmallFloats, RoundToTheNearestTiesToEven) {
  EXPECT_EQ(Bfloat16(257), 256);
  EXPECT_EQ(Bfloat16(259), 260);
  EXPECT_EQ(Bfloat16(-1.00390625f * 1.0000001f), -1.0078125f);  // a little more than a tie
  EXPECT_EQ(Float16(2049), 2048);
  EXPECT_EQ(Float16(2051), 2052);
  EXPECT_TRUE(std::isinf(Float16(65520)) && std::isinf(Bfloat16(3.4e38f)));
  EXPECT_TRUE(std::isnan(Float16(NAN)) && std::isnan(Bfloat16(NAN)));
}

TEST(PerfTypes, NamesLeadBack) {
  for (int t = 0; t < kTypes; ++t) {
    const TypeInfo* found = find_type(info(static_cast<Type>(t)).name);
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->type, static_cast<Type>(t));
  }
  EXPECT_EQ(find_type("flaot"), nullptr);
  Op op;
  EXPECT_FALSE(find_op("avg", &op));
  EXPECT_FALSE(fits(Type::float32, Op::band));
  EXPECT_FALSE(fits(Type::int32, Op::maxloc));
}

}  // namespace
}  // namespace gpucoll::perf
