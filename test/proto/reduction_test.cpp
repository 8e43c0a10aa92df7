// Reductions against plain references, and the 16-bit floats against the arithmetic that defines them.
#include "proto/reduction.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace gpucoll::proto {
namespace {

// Every value of interest of an integer type: the ends, around zero, and some in between.
template <class T>
std::vector<T> integers() {
  using L = std::numeric_limits<T>;
  const T low = L::min(), high = L::max(), one = 1;
  std::vector<T> values{low, static_cast<T>(low + one), static_cast<T>(0 - one), 0, 1, 2, 7};
  for (T value : {static_cast<T>(high / 3), static_cast<T>(high - one), high}) values.push_back(value);
  std::mt19937_64 random(1);
  for (int i = 0; i < 20; ++i) values.push_back(static_cast<T>(random()));
  return values;
}

// In 128 bits nothing overflows; the conversion back wraps.
template <class T>
class Integers : public testing::Test {};
using IntegerTypes = testing::Types<int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t, uint64_t>;
TYPED_TEST_SUITE(Integers, IntegerTypes);

TYPED_TEST(Integers, AgreeWithWideArithmetic) {
  using T = TypeParam;
  using Wide128 = __int128;
  for (T a : integers<T>()) {
    for (T b : integers<T>()) {
      const Wide128 x = a, y = b;
      EXPECT_EQ(Sum<T>::apply(a, b), static_cast<T>(x + y));
      EXPECT_EQ(Prod<T>::apply(a, b), static_cast<T>(static_cast<uint64_t>(x) * static_cast<uint64_t>(y)));
      EXPECT_EQ(Max<T>::apply(a, b), static_cast<T>(x > y ? x : y));
      EXPECT_EQ(Min<T>::apply(a, b), static_cast<T>(x < y ? x : y));
      EXPECT_EQ(Band<T>::apply(a, b), static_cast<T>(x & y));
      EXPECT_EQ(Bor<T>::apply(a, b), static_cast<T>(x | y));
      EXPECT_EQ(Bxor<T>::apply(a, b), static_cast<T>(x ^ y));
      EXPECT_EQ(Land<T>::apply(a, b), static_cast<T>(a && b ? 1 : 0));
      EXPECT_EQ(Lor<T>::apply(a, b), static_cast<T>(a || b ? 1 : 0));
      EXPECT_EQ(Lxor<T>::apply(a, b), static_cast<T>(!a != !b ? 1 : 0));
    }
  }
}

// Why kernels of signed and unsigned types may be one.
TYPED_TEST(Integers, SignednessDoesNotMatterButToMaxAndMin) {
  using S = std::make_signed_t<TypeParam>;
  using U = std::make_unsigned_t<TypeParam>;
  for (S a : integers<S>()) {
    for (S b : integers<S>()) {
      const U x = static_cast<U>(a), y = static_cast<U>(b);
      EXPECT_EQ(static_cast<U>(Sum<S>::apply(a, b)), Sum<U>::apply(x, y));
      EXPECT_EQ(static_cast<U>(Prod<S>::apply(a, b)), Prod<U>::apply(x, y));
      EXPECT_EQ(static_cast<U>(Lxor<S>::apply(a, b)), Lxor<U>::apply(x, y));
    }
  }
}

TEST(Int8, SumWraps) { EXPECT_EQ(Sum<int8_t>::apply(127, 1), -128); }

// Numbers of both signs, zeros, infinities, and NaNs of different bits.
template <class T, class Bits>
std::vector<T> specials() {
  std::vector<T> all;
  constexpr int kMantissa = sizeof(T) == 8                  ? 52
                            : sizeof(T) == 4                ? 23
                            : std::is_same_v<T, Half>       ? 10
                            : sizeof(T) == 2                ? 7
                            : std::is_same_v<T, Float8E4m3> ? 3
                                                            : 2;
  constexpr int kWidth = 8 * sizeof(T);
  const Bits infinity = static_cast<Bits>(((Bits{1} << (kWidth - 1 - kMantissa)) - 1) << kMantissa);
  const Bits one = static_cast<Bits>((infinity >> 1) & ~((Bits{1} << kMantissa) - 1));
  for (const Bits sign : {Bits{0}, static_cast<Bits>(Bits{1} << (kWidth - 1))}) {
    const Bits magnitudes[] = {0,
                               1,
                               one,
                               static_cast<Bits>(one + 1),
                               infinity,
                               static_cast<Bits>(infinity + 1),
                               static_cast<Bits>(infinity | Bits{1} << (kMantissa - 1)),
                               static_cast<Bits>(infinity + 3)};
    for (const Bits magnitude : magnitudes) {
      const Bits bits = static_cast<Bits>(sign | magnitude);
      T value;
      std::memcpy(&value, &bits, sizeof value);
      all.push_back(value);
    }
  }
  return all;
}

template <class T>
bool same_bits(T a, T b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}
// But for what is between and behind its members.
template <class V, class I>
bool same_bits(Pair<V, I> a, Pair<V, I> b) {
  return same_bits(a.value, b.value) && same_bits(a.index, b.index);
}

template <class T>
bool is_float8_nan(T x) {
  if constexpr (kFloat8<T>) return is_nan(x);
  return false;
}
// Whatever the order, the same bits.
template <class Red>
void expect_any_order(const std::vector<typename Red::Element>& values) {
  for (const auto& a : values) {
    for (const auto& b : values) {
      const auto both = Red::apply(a, b);
      EXPECT_TRUE(same_bits(both, Red::apply(b, a)));
      EXPECT_TRUE(same_bits(both, a) || same_bits(both, b) || is_float8_nan(both));
      for (const auto& c : values) EXPECT_TRUE(same_bits(Red::apply(both, c), Red::apply(a, Red::apply(b, c))));
    }
  }
}

template <class T, class Bits>
void expect_max_and_min_in_any_order() {
  expect_any_order<Max<T>>(specials<T, Bits>());
  expect_any_order<Min<T>>(specials<T, Bits>());
}

template <class P, class Value, class Index>
void expect_places_in_any_order(const std::vector<Value>& values, const std::vector<Index>& places) {
  std::vector<P> pairs;
  for (size_t i = 0; i < values.size(); i += 2)
    for (Index place : places) {
      P pair;
      std::memset(static_cast<void*>(&pair), 0, sizeof pair);
      pair.value = values[i], pair.index = place;
      pairs.push_back(pair);
    }
  expect_any_order<Maxloc<P>>(pairs);
  expect_any_order<Minloc<P>>(pairs);
}

TEST(Floats, MaxAndMinAreTheSameInAnyOrder) {
  expect_max_and_min_in_any_order<float, uint32_t>();
  expect_max_and_min_in_any_order<double, uint64_t>();
  expect_max_and_min_in_any_order<Half, uint16_t>();
  expect_max_and_min_in_any_order<Bfloat16, uint16_t>();
  expect_max_and_min_in_any_order<Float8E4m3, uint8_t>();
  expect_max_and_min_in_any_order<Float8E5m2, uint8_t>();
}

TEST(Pairs, MaxlocAndMinlocAreTheSameInAnyOrder) {
  const std::vector<int32_t> places = {-1, 0, 7};
  expect_places_in_any_order<FloatInt>(specials<float, uint32_t>(), places);
  expect_places_in_any_order<DoubleInt>(specials<double, uint64_t>(), places);
  expect_places_in_any_order<FloatFloat>(specials<float, uint32_t>(),
                                         std::vector<float>{0.0f, -0.0f, std::numeric_limits<float>::quiet_NaN()});
  expect_places_in_any_order<IntInt>(std::vector<int32_t>{-1, -1, 0, 0, 5, 5}, places);
}

TEST(Floats, MaxAndMinPreferNumbersAndTellZerosApart) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(Max<float>::apply(nan, 1.0f), 1.0f);
  EXPECT_EQ(Min<float>::apply(1.0f, nan), 1.0f);
  EXPECT_FALSE(std::signbit(Max<float>::apply(-0.0f, 0.0f)));
  EXPECT_TRUE(std::signbit(Min<float>::apply(-0.0f, 0.0f)));
  EXPECT_EQ(Max<float>::apply(2.0f, 1.0f), 2.0f);
  EXPECT_EQ(Min<double>::apply(2.0, 1.0), 1.0);
  EXPECT_EQ(Min<Half>::apply(to_half(-2.0f), to_half(1.0f)).bits, to_half(-2.0f).bits);
  EXPECT_EQ(Max<Bfloat16>::apply(to_bfloat16(3.0f), to_bfloat16(1.0f)).bits, to_bfloat16(3.0f).bits);
}

// The value of half `bits`, from its definition.
double half_value(uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 0x3ff;
  const double magnitude = exponent == 0    ? std::ldexp(mantissa, -24)
                           : exponent == 31 ? std::numeric_limits<double>::infinity()
                                            : std::ldexp(1024 + mantissa, exponent - 25);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

bool is_half_nan(uint16_t bits) { return (bits & 0x7fff) > 0x7c00; }

TEST(Half, EveryValueConvertsThereAndBack) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const Half h{static_cast<uint16_t>(bits)};
    if (is_half_nan(h.bits)) {
      EXPECT_TRUE(std::isnan(to_float(h)));
      EXPECT_EQ(to_half(to_float(h)).bits, 0x7fff);
    } else {
      EXPECT_EQ(static_cast<double>(to_float(h)), half_value(h.bits));
      EXPECT_EQ(to_half(to_float(h)).bits, h.bits);
    }
  }
}

// Between each pair of neighbouring halves: below, at and above the middle.
TEST(Half, RoundsToNearestEven) {
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const uint16_t low = static_cast<uint16_t>(bits), high = static_cast<uint16_t>(bits + 1);
    const double above = bits == 0x7bff ? 65536.0 : half_value(high);  // what infinity stands for in rounding
    const float middle = static_cast<float>((half_value(low) + above) / 2);
    const uint16_t even = (low & 1) == 0 ? low : high;
    EXPECT_EQ(to_half(middle).bits, even);
    EXPECT_EQ(to_half(std::nextafter(middle, 0.0f)).bits, low);
    EXPECT_EQ(to_half(std::nextafter(middle, 1e9f)).bits, high);
    EXPECT_EQ(to_half(-middle).bits, even | 0x8000);
  }
  EXPECT_EQ(to_half(1e30f).bits, 0x7c00);
  EXPECT_EQ(to_half(std::numeric_limits<float>::denorm_min()).bits, 0);
}

TEST(Bfloat16, RoundsToNearestEven) {
  for (uint32_t bits = 0; bits < 0x7f80; ++bits) {
    const uint32_t low = bits << 16, middle = low | 0x8000;
    EXPECT_EQ(to_bfloat16(__builtin_bit_cast(float, low)).bits, bits);
    EXPECT_EQ(to_bfloat16(__builtin_bit_cast(float, middle)).bits, bits + (bits & 1));
    EXPECT_EQ(to_bfloat16(__builtin_bit_cast(float, middle - 1)).bits, bits);
    EXPECT_EQ(to_bfloat16(__builtin_bit_cast(float, middle + 1)).bits, bits + 1);
  }
  EXPECT_EQ(to_bfloat16(-1.0f).bits, 0xbf80);
  EXPECT_EQ(to_bfloat16(std::numeric_limits<float>::quiet_NaN()).bits, 0x7fff);
}

// All of them, and all numbers halfway between two.
template <class T>
void check_eight_bits(T (*narrow)(float), int mantissa, int bias, uint8_t largest) {
  for (int bits = 0; bits <= largest; ++bits) {
    const int exponent = bits >> mantissa, fraction = bits & ((1 << mantissa) - 1);
    const float value = exponent == 0
                            ? std::ldexp(static_cast<float>(fraction), 1 - bias - mantissa)
                            : std::ldexp(static_cast<float>(fraction + (1 << mantissa)), exponent - bias - mantissa);
    EXPECT_EQ(to_float(T{static_cast<uint8_t>(bits)}), value) << bits;
    EXPECT_EQ(to_float(T{static_cast<uint8_t>(bits | 0x80)}), -value) << bits;
    EXPECT_EQ(narrow(value).bits, bits);
    EXPECT_EQ(narrow(-value).bits, bits | 0x80);
    if (bits == largest) break;
    const float next = to_float(T{static_cast<uint8_t>(bits + 1)}), middle = (value + next) / 2;
    EXPECT_EQ(narrow(middle).bits, bits + (bits & 1)) << bits;
    EXPECT_EQ(narrow(std::nextafter(middle, 0.0f)).bits, bits);
    EXPECT_EQ(narrow(std::nextafter(middle, 1e9f)).bits, bits + 1);
  }
  for (float large : {to_float(T{largest}) * 2, 1e30f, std::numeric_limits<float>::infinity()}) {
    EXPECT_EQ(narrow(large).bits, largest);
    EXPECT_EQ(narrow(-large).bits, largest | 0x80);
  }
  EXPECT_EQ(narrow(std::numeric_limits<float>::denorm_min()).bits, 0);
  EXPECT_EQ(narrow(std::numeric_limits<float>::quiet_NaN()).bits, 0x7f);
  EXPECT_TRUE(std::isnan(to_float(T{0x7f})) && std::isnan(to_float(T{0xff})));
}
TEST(EightBitFloats, RoundToNearestEvenAndSaturate) {
  check_eight_bits<Float8E4m3>(to_float8_e4m3, 3, 7, 0x7e);
  check_eight_bits<Float8E5m2>(to_float8_e5m2, 2, 15, 0x7b);
  EXPECT_EQ(to_float(Float8E5m2{0x7c}), std::numeric_limits<float>::infinity());
}
TEST(EightBitFloats, ComputeThroughFloat) {
  EXPECT_EQ(Sum<Float8E4m3>::apply(to_float8_e4m3(16.0f), to_float8_e4m3(1.0f)).bits, to_float8_e4m3(16.0f).bits);
  EXPECT_EQ(to_float(Sum<Float8E4m3>::apply(to_float8_e4m3(448.0f), to_float8_e4m3(448.0f))), 448.0f);
  EXPECT_EQ(to_float(Prod<Float8E5m2>::apply(to_float8_e5m2(3.0f), to_float8_e5m2(-0.5f))), -1.5f);
  EXPECT_EQ(to_float(Max<Float8E5m2>::apply(Float8E5m2{0x7f}, to_float8_e5m2(-3.0f))), -3.0f);  // a NaN gives way
  EXPECT_EQ(to_float(Min<Float8E4m3>::apply(to_float8_e4m3(1.0f), to_float8_e4m3(-3.0f))), -3.0f);
}

// proto/float8_pairs.h computes in halves. It is for GPUs alone, so halves stand here for what it does.
template <class T>
void check_through_halves() {
  const auto halved = [](float x) { return from_float(to_float(to_half(x)), T{}).bits; };
  for (int i = 0; i < 256; ++i) {
    const T a{static_cast<uint8_t>(i)};
    const float x = to_float(a);
    if (!is_nan(a)) {
      EXPECT_EQ(to_float(to_half(x)), x);
    }
    for (int j = 0; j < 256; ++j) {
      const T b{static_cast<uint8_t>(j)};
      const float y = to_float(b);
      ASSERT_EQ(Sum<T>::apply(a, b).bits, halved(x + y)) << i << " + " << j;
      ASSERT_EQ(Prod<T>::apply(a, b).bits, halved(x * y)) << i << " * " << j;
      ASSERT_EQ(PreMulSum<T>::pre(a, {0, b.bits, 0}).bits, halved(x * y));
    }
    for (uint64_t n = 1; n <= 1 << 20; n *= 2) {
      const float scale = 1 / static_cast<float>(n);
      ASSERT_EQ(to_float(to_half(scale)), scale);
      ASSERT_EQ(Avg<T>::pre(a, {0, n, 0}).bits, halved(x * scale)) << i << " / " << n;
    }
  }
}
TEST(EightBitFloats, GiveTheSameBitsThroughHalves) {
  check_through_halves<Float8E4m3>();
  check_through_halves<Float8E5m2>();
}

// What is multiplied by a rounded factor is as if it had been divided.
template <class T>
void check_average_of_the_same() {
  for (uint64_t n = 1; n < 3000; ++n) {
    const double scale = power_of_two_from(n);
    for (int i = 0; i < 256; ++i) {
      const T x{static_cast<uint8_t>(i)};
      const auto divided = static_cast<float>(static_cast<double>(to_float(x)) * scale / static_cast<double>(n));
      ASSERT_EQ(Avg<T>::post(x, {0, n, 0}).bits, from_float(divided, x).bits) << i << " of " << n;
    }
  }
}
TEST(EightBitFloats, AveragesAreRoundedOnceAfterTheSum) {
  check_average_of_the_same<Float8E4m3>();
  check_average_of_the_same<Float8E5m2>();
}
TEST(EightBitFloats, TwoNansGiveTheOneThatConversionsGive) {
  EXPECT_EQ(Max<Float8E5m2>::apply({0x7d}, {0xfe}).bits, 0x7f);
  EXPECT_EQ(Min<Float8E4m3>::apply({0xff}, {0xff}).bits, 0x7f);
  EXPECT_EQ(Max<Float8E5m2>::apply({0x7c}, {0x7b}).bits, 0x7c);  // infinity stays
  EXPECT_EQ(Sum<Float8E5m2>::apply({0x7c}, {0xfc}).bits, 0x7f);
}

TEST(SixteenBitFloats, ComputeThroughFloat) {
  EXPECT_EQ(Sum<Half>::apply(to_half(2048.0f), to_half(1.0f)).bits, to_half(2048.0f).bits);  // a tie, to even
  EXPECT_EQ(Prod<Half>::apply(to_half(300.0f), to_half(300.0f)).bits, 0x7c00);
  EXPECT_EQ(Sum<Bfloat16>::apply(to_bfloat16(256.0f), to_bfloat16(2.0f)).bits, to_bfloat16(258.0f).bits);
  EXPECT_EQ(Prod<Bfloat16>::apply(to_bfloat16(3.0f), to_bfloat16(-0.5f)).bits, to_bfloat16(-1.5f).bits);
}

TEST(ComplexNumbers, SumAndProduct) {
  const Complex<double> a{1, 2}, b{3, -4};
  const auto sum = Sum<Complex<double>>::apply(a, b), product = Prod<Complex<double>>::apply(a, b);
  EXPECT_EQ(sum.re, 4);
  EXPECT_EQ(sum.im, -2);
  EXPECT_EQ(product.re, 11);
  EXPECT_EQ(product.im, 2);
}

// ---- hooks ----

template <class T>
Reduction with_scalar(T scalar) {
  uint64_t words[2] = {};
  std::memcpy(words, &scalar, sizeof(T));
  return {0, words[0], words[1]};
}

TYPED_TEST(Integers, AveragesAreRoundedTowardsZero) {
  using T = TypeParam;
  for (T x : integers<T>()) {
    for (uint64_t n : {1, 2, 3, 7, 128, 300}) {  // also more ranks than an int8 can count
      EXPECT_EQ(Avg<T>::post(x, {0, n, 0}), static_cast<T>(static_cast<__int128>(x) / static_cast<__int128>(n)));
    }
  }
  EXPECT_EQ(Avg<T>::apply(2, 5), 7);
}

TYPED_TEST(Integers, PreMultipliedSumsWrap) {
  using T = TypeParam;
  for (T x : integers<T>()) {
    for (T scalar : integers<T>()) {
      EXPECT_EQ(PreMulSum<T>::pre(x, with_scalar(scalar)), Prod<T>::apply(x, scalar));
    }
  }
  EXPECT_EQ(PreMulSum<T>::apply(2, 5), 7);
}

TEST(Floats, HooksComputeInTheirType) {
  EXPECT_EQ(Avg<float>::post(1.0f, {0, 3, 0}), 1.0f / 3);
  EXPECT_EQ(Avg<double>::post(1.0, {0, 3, 0}), 1.0 / 3);
  EXPECT_EQ(PreMulSum<float>::pre(3.0f, with_scalar(0.1f)), 3.0f * 0.1f);
  EXPECT_EQ(PreMulSum<double>::pre(3.0, with_scalar(0.1)), 3.0 * 0.1);
  EXPECT_EQ(PreMulSum<Half>::pre(to_half(3.0f), with_scalar(to_half(0.5f))).bits, to_half(1.5f).bits);
  EXPECT_EQ(PreMulSum<Bfloat16>::pre(to_bfloat16(3.0f), with_scalar(to_bfloat16(-2.0f))).bits, to_bfloat16(-6.0f).bits);
}

// Of small numbers exactly the quotient; of n equal ones, the greatest too, nearly the number itself, as far as sums of
// so many go in such types.
template <class T>
void check_narrow_average(T (*narrow)(float), float greatest) {
  for (uint64_t n : {1, 2, 3, 4, 5, 7, 8, 9, 64, 100, 1000}) {
    const Reduction reduction = {0, n, 0};
    const auto average = [&](auto value_of) {
      T sum = Avg<T>::pre(narrow(value_of(0)), reduction);
      for (uint64_t i = 1; i < n; ++i) sum = Avg<T>::apply(sum, Avg<T>::pre(narrow(value_of(i)), reduction));
      return Avg<T>::post(sum, reduction);
    };
    if (n <= 9) {
      const float got = to_float(average([](uint64_t i) { return static_cast<float>(i); }));
      EXPECT_EQ(got, to_float(narrow(static_cast<float>(n - 1) / 2)));
    }
    for (float x : {1.0f, -3.0f, greatest}) {
      const float got = to_float(average([=](uint64_t) { return x; }));
      EXPECT_LE(std::abs(got - to_float(narrow(x))), std::abs(x) * (n <= 9 ? 0.01f : 0.9f)) << n << " times " << x;
    }
  }
}
TEST(Floats, AveragesOfNarrowOnesDoNotOverflow) {
  check_narrow_average<Half>(to_half, 65504);
  check_narrow_average<Bfloat16>(to_bfloat16, 3.38e38f);
}

TEST(ComplexNumbers, Hooks) {
  const auto average = Avg<Complex<float>>::post({3, -5}, {0, 2, 0});
  EXPECT_EQ(average.re, 1.5f);
  EXPECT_EQ(average.im, -2.5f);
  const auto small = PreMulSum<Complex<float>>::pre({1, 2}, with_scalar(Complex<float>{3, -4}));
  EXPECT_EQ(small.re, 11);
  EXPECT_EQ(small.im, 2);
  const auto large = PreMulSum<Complex<double>>::pre({1, 2}, with_scalar(Complex<double>{3, -4}));
  EXPECT_EQ(large.re, 11);
  EXPECT_EQ(large.im, 2);
}

TEST(Hooks, AreKnown) {
  static_assert(kHasPost<Avg<float>> && !kHasPre<Avg<float>> && kHasPre<PreMulSum<int8_t>> &&
                !kHasPost<PreMulSum<int8_t>>);
  static_assert(kHasPost<Avg<Half>> && kHasPre<Avg<Half>> && !kHasOwnPre<Avg<Half>> && kMayOpen<Avg<Half>>);
  static_assert(kHasOwnPre<PreMulSum<Half>> && !kMayOpen<PreMulSum<Half>>);
  static_assert(!kHasPre<Sum<float>> && !kHasPost<Sum<float>> && !kHasPre<Maxloc<FloatInt>>);
}

template <class P>
class Pairs : public testing::Test {};
using PairTypes = testing::Types<FloatInt, DoubleInt, LongInt, IntInt, ShortInt, FloatFloat, DoubleDouble>;
TYPED_TEST_SUITE(Pairs, PairTypes);

TYPED_TEST(Pairs, ValueDecidesThenTheSmallerIndex) {
  using P = TypeParam;
  const P low{-3, 9}, high{5, 4}, high_later{5, 7};
  for (const auto& [a, b] : {std::pair{high, high_later}, {high_later, high}, {low, high}, {high, low}}) {
    EXPECT_EQ(Maxloc<P>::apply(a, b).value, 5);
    EXPECT_EQ(Maxloc<P>::apply(a, b).index, 4);
  }
  EXPECT_EQ(Minloc<P>::apply(high, low).index, 9);
  EXPECT_EQ(Minloc<P>::apply(low, high).value, -3);
  EXPECT_EQ(Minloc<P>::apply(high_later, high).index, 4);
}

}  // namespace
}  // namespace gpucoll::proto
