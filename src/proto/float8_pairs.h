// Reductions of two 8-bit floats at a time, in halves, on GPUs that have instructions for them: PairsOf<Red>.
//
// They give the same bits as reduction.h does through float, one at a time. The 11 significant bits of a half are more
// than twice the 4 that e4m3 has at most, by more than one: so a sum that is first rounded to half, and then to 8 bits,
// is what it is rounded at once. A product has 8 significant bits, which a half holds. What a half takes for infinity
// is larger than the largest number of 8 bits, and what it rounds since it is small becomes zero or a sum that is
// exact. test/proto/reduction_test.cpp tries all pairs of numbers.
//
// Thread safety: pure functions of their arguments.
#pragma once
#include "proto/reduction.h"

namespace gpucoll::proto {

#if GC_FLOAT8_INSTRUCTIONS

template <class T>
inline constexpr bool kInPairs = kFloat8<T>;

template <class Red>
struct PairsOf {
  using T = typename Red::Element;

  static GC_DEV uint16_t apply(uint16_t a, uint16_t b) {
    const __half2 x = widen(a), y = widen(b);
    if constexpr (std::is_base_of_v<Sum<T>, Red>) return narrow(__hadd2_rn(x, y));
    if constexpr (std::is_same_v<Prod<T>, Red>) return narrow(__hmul2_rn(x, y));
    if constexpr (std::is_same_v<Max<T>, Red>) return narrow_same(__hmax2(x, y));
    if constexpr (std::is_same_v<Min<T>, Red>) return narrow_same(__hmin2(x, y));
  }
  static GC_DEV uint16_t pre(uint16_t x, const Reduction& reduction) {
    return narrow(__hmul2_rn(widen(x), __float2half2_rn(factor(reduction))));
  }
  static GC_DEV uint16_t post(uint16_t x, const Reduction& reduction) {
    const float2 y = __half22float2(widen(x));
    const float f = Red::last_factor(reduction);
    return __nv_cvt_float2_to_fp8x2({y.x * f, y.y * f}, __NV_SATFINITE, kKind);
  }

 private:
  static constexpr bool kE5m2 = std::is_same_v<T, Float8E5m2>;
  static constexpr __nv_fp8_interpretation_t kKind = kE5m2 ? __NV_E5M2 : __NV_E4M3;
  static_assert(kE5m2 || std::is_same_v<T, Float8E4m3>);

  static GC_DEV float factor(const Reduction& reduction) {
    if constexpr (std::is_same_v<PreMulSum<T>, Red>) return to_float(scalar_of<T>(reduction));
    if constexpr (!std::is_same_v<PreMulSum<T>, Red>) return Red::first_factor(reduction);
  }
  // An e5m2 is the upper half of a half.
  static GC_DEV __half2 widen(uint16_t x) {
    if constexpr (kE5m2) return __half2(__builtin_bit_cast(__half2_raw, __byte_perm(x, 0, 0x1404)));
    if constexpr (!kE5m2) return __half2(__nv_cvt_fp8x2_to_halfraw2(x, kKind));
  }
  static GC_DEV uint16_t narrow(__half2 x) {
    return __nv_cvt_halfraw2_to_fp8x2(static_cast<__half2_raw>(x), __NV_SATFINITE, kKind);
  }
  // REQUIRES: both are numbers of T, infinities, or the NaN that instructions give.
  static GC_DEV uint16_t narrow_same(__half2 x) {
    if constexpr (!kE5m2) return narrow(x);
    return static_cast<uint16_t>(__byte_perm(__builtin_bit_cast(uint32_t, static_cast<__half2_raw>(x)), 0, 0x4431));
  }
};

#else

template <class T>
inline constexpr bool kInPairs = false;
template <class Red>
struct PairsOf {};

#endif

}  // namespace gpucoll::proto
