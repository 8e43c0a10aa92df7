// Floats of 16 and 8 bits: to float and back. Both targets give the same bits: rounded to nearest even, and one NaN.
// Too large a number becomes infinity as 16 bits, and the largest number as 8 bits: NCCL and CUDA's conversions do so.
//
// Thread safety: pure functions of their arguments.
#pragma once
#include "proto/platform.h"

#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#endif
// GPUs have instructions for 8-bit floats from Ada and Hopper on.
#if GC_ON_GPU && __CUDA_ARCH__ >= 890
#define GC_FLOAT8_INSTRUCTIONS 1
#else
#define GC_FLOAT8_INSTRUCTIONS 0
#endif

namespace gpucoll::proto {

struct Half {
  uint16_t bits;
};
struct Bfloat16 {
  uint16_t bits;
};
// 4 bits of exponent and 3 of mantissa, without infinities; 5 and 2, with infinities.
struct Float8E4m3 {
  uint8_t bits;
};
struct Float8E5m2 {
  uint8_t bits;
};

// Floats that are computed through float.
template <class T>
inline constexpr bool kNarrow = false;
template <>
inline constexpr bool kNarrow<Half> = true;
template <>
inline constexpr bool kNarrow<Bfloat16> = true;
template <>
inline constexpr bool kNarrow<Float8E4m3> = true;
template <>
inline constexpr bool kNarrow<Float8E5m2> = true;
// Those of 8 bits.
template <class T>
inline constexpr bool kFloat8 = kNarrow<T> && sizeof(T) == 1;
// The NaN of both that conversions give.
inline constexpr uint8_t kFloat8Nan = 0x7f;

// Drops the low `shift` bits, rounding to nearest even. REQUIRES: 0 < shift < 32.
GC_DEV uint32_t round_off(uint32_t value, int shift) {
  const uint32_t kept = value >> shift;
  const uint32_t half = uint32_t{1} << (shift - 1);
  const uint32_t lost = value & (2 * half - 1);
  return kept + (lost > half || (lost == half && (kept & 1) != 0) ? 1 : 0);
}

#if GC_ON_GPU

GC_DEV float to_float(Half h) { return __half2float(__ushort_as_half(h.bits)); }
GC_DEV float to_float(Bfloat16 b) { return __uint_as_float(static_cast<uint32_t>(b.bits) << 16); }
GC_DEV Half to_half(float f) { return {__half_as_ushort(__float2half_rn(f))}; }
GC_DEV Bfloat16 to_bfloat16(float f) { return {__bfloat16_as_ushort(__float2bfloat16_rn(f))}; }

#else

GC_DEV float to_float(Bfloat16 b) { return __builtin_bit_cast(float, static_cast<uint32_t>(b.bits) << 16); }

GC_DEV float to_float(Half h) {
  const uint32_t sign = static_cast<uint32_t>(h.bits & 0x8000) << 16;
  const uint32_t magnitude = h.bits & 0x7fff;
  if (magnitude >= 0x7c00) return __builtin_bit_cast(float, sign | 0x7f800000 | (magnitude & 0x3ff) << 13);
  if (magnitude < 0x0400) {  // zero or subnormal: a multiple of 2^-24
    const float value = static_cast<float>(magnitude) * 0x1p-24f;
    return sign != 0 ? -value : value;
  }
  return __builtin_bit_cast(float, sign | ((magnitude << 13) + 0x38000000));  // 127 - 15 more in the exponent
}

GC_DEV Bfloat16 to_bfloat16(float f) {
  if (f != f) return {0x7fff};  // the one NaN that a GPU's conversion gives
  return {static_cast<uint16_t>(round_off(__builtin_bit_cast(uint32_t, f), 16))};
}

GC_DEV Half to_half(float f) {
  if (f != f) return {0x7fff};
  const uint32_t bits = __builtin_bit_cast(uint32_t, f);
  const uint32_t sign = bits >> 16 & 0x8000;
  const uint32_t magnitude = bits & 0x7fffffff;
  const int exponent = static_cast<int>(magnitude >> 23);
  uint32_t result = 0;
  if (exponent >= 143) {
    result = 0x7c00;  // 2^16 and more: infinity; a little less may still round up to it
  } else if (exponent >= 113) {
    result = round_off(magnitude - 0x38000000, 13);
  } else if (exponent >= 102) {  // becomes subnormal; below, everything rounds to zero
    result = round_off((magnitude & 0x7fffff) | 0x800000, 126 - exponent);
  }
  return {static_cast<uint16_t>(sign | result)};
}

#endif

// The upper half of a half.
GC_DEV float to_float(Float8E5m2 x) { return to_float(Half{static_cast<uint16_t>(x.bits << 8)}); }

#if GC_FLOAT8_INSTRUCTIONS

GC_DEV float to_float(Float8E4m3 x) { return __half2float(__half(__nv_cvt_fp8_to_halfraw(x.bits, __NV_E4M3))); }
GC_DEV Float8E4m3 to_float8_e4m3(float f) { return {__nv_cvt_float_to_fp8(f, __NV_SATFINITE, __NV_E4M3)}; }
GC_DEV Float8E5m2 to_float8_e5m2(float f) { return {__nv_cvt_float_to_fp8(f, __NV_SATFINITE, __NV_E5M2)}; }

#else

GC_DEV float to_float(Float8E4m3 x) {
  const uint32_t sign = static_cast<uint32_t>(x.bits & 0x80) << 24;
  const uint32_t magnitude = x.bits & 0x7f;
  if (magnitude == 0x7f) return __builtin_bit_cast(float, sign | 0x7fc00000);
  if (magnitude < 0x08) {  // zero or subnormal: a multiple of 2^-9
    const float value = static_cast<float>(magnitude) * 0x1p-9f;
    return sign != 0 ? -value : value;
  }
  return __builtin_bit_cast(float, sign | ((magnitude << 20) + 0x3c000000));  // 127 - 7 more in the exponent
}

// Rounds to a number of kMantissa bits of mantissa, whose exponent has the bias kBias; kLargest is the largest one.
template <int kMantissa, int kBias, uint32_t kLargest>
GC_NOINLINE uint8_t to_float8(float f) {
  if (f != f) return kFloat8Nan;
  constexpr int kShift = 23 - kMantissa, kLowest = 128 - kBias;  // of a normal number, the exponent as a float has it
  constexpr uint32_t kRebias = static_cast<uint32_t>(127 - kBias) << 23;
  const uint32_t bits = __builtin_bit_cast(uint32_t, f);
  const uint32_t magnitude = bits & 0x7fffffff;
  const int exponent = static_cast<int>(magnitude >> 23);
  uint32_t result = 0;
  if (magnitude >= (kLargest << kShift) + kRebias) {
    result = kLargest;
  } else if (exponent >= kLowest) {
    result = round_off(magnitude - kRebias, kShift);
  } else if (exponent >= kLowest - kMantissa - 1) {  // becomes subnormal; below, everything rounds to zero
    result = round_off((magnitude & 0x7fffff) | 0x800000, kShift + kLowest - exponent);
  }
  return static_cast<uint8_t>((bits >> 24 & 0x80) | result);
}
GC_DEV Float8E4m3 to_float8_e4m3(float f) { return {to_float8<3, 7, 0x7e>(f)}; }
GC_DEV Float8E5m2 to_float8_e5m2(float f) { return {to_float8<2, 15, 0x7b>(f)}; }

#endif

// The second argument only says to which type.
GC_DEV Half from_float(float x, Half) { return to_half(x); }
GC_DEV Bfloat16 from_float(float x, Bfloat16) { return to_bfloat16(x); }
GC_DEV Float8E4m3 from_float(float x, Float8E4m3) { return to_float8_e4m3(x); }
GC_DEV Float8E5m2 from_float(float x, Float8E5m2) { return to_float8_e5m2(x); }

}  // namespace gpucoll::proto
