// Element types and reductions: what `op` is, for one source shared by nvcc and the host compiler.
//
// A reduction is a stateless struct with `Element` and `static Element apply(Element a, Element b)`. a is what has
// been accumulated so far, b the operand that joins it: in a ring, a comes from the ranks before and b is the own
// contribution. All operations commute; the order matters for the rounding of floats alone.
// A reduction may have hooks: `pre(x, reduction)` changes each rank's own contribution before it joins or is sent,
// `post(x, reduction)` the complete result, once.
//
// Same bits on a CPU and on a GPU: floats are rounded to nearest even and never contracted (compile with
// -ffp-contract=off, nvcc -fmad=false); 16-bit and 8-bit floats are computed through float. Excepted are the payload
// bits of a NaN that float32 and float64 arithmetic gives. Integers wrap; no operation has undefined behaviour.
//
// Thread safety: pure functions of their arguments.
#pragma once
#include <type_traits>

#include "proto/small_floats.h"

namespace gpucoll::proto {

// The values of gpucollDataType_t and gpucollRedOp_t; src/coll asserts that they are equal.
// clang-format off
enum class DataType : int32_t {
  int8, uint8, int32, uint32, int64, uint64, float16, float32, float64, bfloat16, int16, uint16, complex64,
  complex128, float_int, double_int, long_int, int_int, short_int, float_float, double_double,
  float8_e4m3, float8_e5m2
};
// clang-format on
inline constexpr int kDataTypes = 23;

// Those that others make have values of their own in the C API: pre_mul_sum is internal.
// clang-format off
enum class RedOp : int32_t {
  sum, prod, max, min, band, bor, bxor, land, lor, lxor, maxloc, minloc, avg, pre_mul_sum
};
// clang-format on
inline constexpr int kRedOps = 14;

// Which reduction of a family (proto/family.h), and what its hooks need: for avg the number of ranks, for pre_mul_sum
// the bits of the scalar, those of 16 bytes in both words.
struct Reduction {
  uint8_t op;
  uint64_t argument;
  uint64_t argument_high;
};

template <class T>
struct Complex {
  T re, im;
};
// The pairs that minloc and maxloc work on, laid out as C does.
template <class V, class I>
struct Pair {
  V value;
  I index;
};

using FloatInt = Pair<float, int32_t>;
using DoubleInt = Pair<double, int32_t>;
using LongInt = Pair<int64_t, int32_t>;
using IntInt = Pair<int32_t, int32_t>;
using ShortInt = Pair<int16_t, int32_t>;
using FloatFloat = Pair<float, float>;
using DoubleDouble = Pair<double, double>;
static_assert(sizeof(FloatInt) == 8 && sizeof(ShortInt) == 8 && sizeof(DoubleInt) == 16 && sizeof(LongInt) == 16);

// True for elements with bytes that belong to no member. Those bytes of an application's memory are left alone.
template <class T>
inline constexpr bool kPadded = false;
template <class V, class I>
inline constexpr bool kPadded<Pair<V, I>> = sizeof(Pair<V, I>) != sizeof(V) + sizeof(I);

// ---- operations ----

// The type in which an integer operation is computed: unsigned and not narrower than int, since the product of two
// uint16_t would be promoted to int and overflow it.
template <class T>
using Wide = std::conditional_t<(sizeof(T) < 4), uint32_t, std::make_unsigned_t<T>>;

template <class T>
GC_DEV T plus(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<Wide<T>>(a) + static_cast<Wide<T>>(b));
  } else if constexpr (kNarrow<T>) {
    return from_float(to_float(a) + to_float(b), a);
  } else {
    return a + b;
  }
}
template <class T>
GC_DEV T times(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<Wide<T>>(a) * static_cast<Wide<T>>(b));
  } else if constexpr (kNarrow<T>) {
    return from_float(to_float(a) * to_float(b), a);
  } else {
    return a * b;
  }
}
template <class T>
GC_DEV Complex<T> plus(Complex<T> a, Complex<T> b) {
  return {a.re + b.re, a.im + b.im};
}
// The plain formula: infinities are not recovered from as C's Annex G does.
template <class T>
GC_DEV Complex<T> times(Complex<T> a, Complex<T> b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

template <class T>
GC_DEV bool greater(T a, T b) {
  if constexpr (kNarrow<T>) {
    return to_float(a) > to_float(b);
  } else {
    return a > b;
  }
}

// ---- which of two is the greater, or the smaller ----
//
// Down to the bits, and so that any order of the operands gives the same: the ranks combine in different orders, and
// must agree. A NaN gives way to a number; of two the one with the greater bits stays, and of 8-bit floats the NaN that
// conversions give. +0 is greater than -0.

GC_DEV uint16_t bits_of(Half x) { return x.bits; }
GC_DEV uint16_t bits_of(Bfloat16 x) { return x.bits; }
GC_DEV uint8_t bits_of(Float8E4m3 x) { return x.bits; }
GC_DEV uint8_t bits_of(Float8E5m2 x) { return x.bits; }
template <class T>
GC_DEV auto bits_of(T x) {
  std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t> bits;
  static_assert(sizeof x == sizeof bits);
  __builtin_memcpy(&bits, &x, sizeof x);
  return bits;
}
GC_DEV bool is_nan(Half x) { return (x.bits & 0x7fff) > 0x7c00; }
GC_DEV bool is_nan(Bfloat16 x) { return (x.bits & 0x7fff) > 0x7f80; }
GC_DEV bool is_nan(Float8E4m3 x) { return (x.bits & 0x7f) == 0x7f; }
GC_DEV bool is_nan(Float8E5m2 x) { return (x.bits & 0x7f) > 0x7c; }
template <class T>
GC_DEV bool is_nan(T x) {
  return x != x;
}

// Where neither is greater than the other: equal numbers, or there is a NaN.
template <class T>
GC_DEV bool wins_tie(T a, T b, bool max) {
  const auto x = bits_of(a), y = bits_of(b);
  if (is_nan(a) || is_nan(b)) return is_nan(b) && (!is_nan(a) || x > y);
  return max ? x < y : x > y;
}
// Returns whether a stays rather than b.
template <class T>
GC_DEV bool wins(T a, T b, bool max) {
  if constexpr (std::is_integral_v<T>) {
    return max ? a > b : a < b;
  } else {
    const bool above = greater(a, b), below = greater(b, a);
    return above != below ? above == max : wins_tie(a, b, max);
  }
}

template <class T>
GC_DEV T winner(T a, T b, bool max) {
  if constexpr (kFloat8<T>) {
    if (is_nan(a) && is_nan(b)) return {kFloat8Nan};
  }
  return wins(a, b, max) ? a : b;
}

// The value decides; where both have it, or none has one, the smaller index.
template <class P>
GC_DEV bool pair_wins(P a, P b, bool max) {
  if (a.value > b.value || a.value < b.value) return (a.value > b.value) == max;
  if constexpr (!std::is_integral_v<decltype(a.value)>) {
    if (is_nan(a.value) != is_nan(b.value)) return is_nan(b.value);
  }
  if (wins(a.index, b.index, false)) return true;
  return !wins(b.index, a.index, false) && wins(a.value, b.value, max);
}

#define GC_REDUCTION(Name, result)                       \
  template <class T>                                     \
  struct Name {                                          \
    using Element = T;                                   \
    static GC_DEV T apply(T a, T b) { return (result); } \
  };
// The formatter takes the operands of & for a declaration.
// clang-format off
GC_REDUCTION(Sum, plus(a, b))
GC_REDUCTION(Prod, times(a, b))
GC_REDUCTION(Max, winner(a, b, true))
GC_REDUCTION(Min, winner(a, b, false))
GC_REDUCTION(Band, static_cast<T>(a & b))
GC_REDUCTION(Bor, static_cast<T>(a | b))
GC_REDUCTION(Bxor, static_cast<T>(a ^ b))
GC_REDUCTION(Land, static_cast<T>(a != 0 && b != 0))
GC_REDUCTION(Lor, static_cast<T>(a != 0 || b != 0))
GC_REDUCTION(Lxor, static_cast<T>((a != 0) != (b != 0)))
GC_REDUCTION(Maxloc, pair_wins(a, b, true) ? a : b)
GC_REDUCTION(Minloc, pair_wins(a, b, false) ? a : b)
// clang-format on
#undef GC_REDUCTION

// ---- reductions with hooks ----

// Integers are rounded towards zero. REQUIRES: 0 < n < 2^31.
template <class T>
GC_DEV T divide(T x, uint64_t n) {
  if constexpr (std::is_integral_v<T>) {
    using Signed = std::conditional_t<(sizeof(T) < 8), int32_t, int64_t>;
    using Divided = std::conditional_t<std::is_signed_v<T>, Signed, Wide<T>>;
    return static_cast<T>(static_cast<Divided>(x) / static_cast<Divided>(n));
  } else {
    return x / static_cast<T>(n);
  }
}
template <class T>
GC_DEV Complex<T> divide(Complex<T> x, uint64_t n) {
  return {x.re / static_cast<T>(n), x.im / static_cast<T>(n)};
}

template <class T>
GC_DEV T scalar_of(const Reduction& reduction) {
  const uint64_t words[2] = {reduction.argument, reduction.argument_high};
  T scalar;
  __builtin_memcpy(&scalar, words, sizeof(T));
  return scalar;
}

template <class T>
struct Avg : Sum<T> {
  static GC_DEV T post(T x, const Reduction& reduction) { return divide(x, reduction.argument); }
};

// Narrow floats: the sum could overflow where the average does not. So what each rank has is divided first by the power
// of two that is n or next above it, which changes no bit of it (but of numbers near the smallest); the rest comes
// after the sum.
// REQUIRES: 0 < n < 2^24.
GC_DEV float power_of_two_from(uint64_t n) {
  constexpr uint32_t kMantissa = 0x7fffff;
  const uint32_t bits = bits_of(static_cast<float>(n));
  return __builtin_bit_cast(float, (bits + kMantissa) & ~kMantissa);
}
template <class T>
struct NarrowAvg : Sum<T> {
  static constexpr bool kSamePre = true;
  static GC_DEV float first_factor(const Reduction& reduction) { return 1 / power_of_two_from(reduction.argument); }
  static GC_DEV T pre(T x, const Reduction& reduction) { return from_float(to_float(x) * first_factor(reduction), x); }
  // Returns a factor for 8-bit floats alone: their few bits hide that it is rounded.
  static GC_DEV float last_factor(const Reduction& reduction) {
    return power_of_two_from(reduction.argument) / static_cast<float>(reduction.argument);
  }
  static GC_DEV T post(T x, const Reduction& reduction) {
    if constexpr (kFloat8<T>) return from_float(to_float(x) * last_factor(reduction), x);
    const float scale = power_of_two_from(reduction.argument);
    return from_float(to_float(x) / static_cast<float>(reduction.argument) * scale, x);
  }
};
template <class T>
requires(kNarrow<T>) struct Avg<T> : NarrowAvg<T> {
};

template <class T>
struct PreMulSum : Sum<T> {
  static GC_DEV T pre(T x, const Reduction& reduction) { return times(x, scalar_of<T>(reduction)); }
};

// In place of a reduction, where elements are only copied.
template <class T>
struct CopyOf {
  using Element = T;
};
template <class Red>
inline constexpr bool kCopies = false;
template <class T>
inline constexpr bool kCopies<CopyOf<T>> = true;

template <class Red>
inline constexpr bool kHasPre = requires(typename Red::Element x, Reduction r) {
  Red::pre(x, r);
};
template <class Red>
inline constexpr bool kHasPost = requires(typename Red::Element x, Reduction r) {
  Red::post(x, r);
};

// Returns whether only the rank itself can prepare its contribution; else, where there is something to prepare, all do
// the same.
template <class Red>
inline constexpr bool kHasOwnPre = kHasPre<Red> && !requires {
  Red::kSamePre;
};

// True where a rank may reduce others' contributions in their buffers. False where only the rank itself can prepare its
// contribution, and for elements with padding.
template <class Red>
inline constexpr bool kMayOpen = !kCopies<Red> && !kHasOwnPre<Red> && !kPadded<typename Red::Element>;

}  // namespace gpucoll::proto
