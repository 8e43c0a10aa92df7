// Floats of 16 bits: to float and back. Both targets give the same bits: rounded to nearest even, and one NaN.
//
// Thread safety: pure functions of their arguments.
#pragma once
#include "proto/platform.h"

#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

namespace gpucoll::proto {

struct Half {
  uint16_t bits;
};
struct Bfloat16 {
  uint16_t bits;
};

#if GC_ON_GPU

GC_DEV float to_float(Half h) { return __half2float(__ushort_as_half(h.bits)); }
GC_DEV float to_float(Bfloat16 b) { return __uint_as_float(static_cast<uint32_t>(b.bits) << 16); }
GC_DEV Half to_half(float f) { return {__half_as_ushort(__float2half_rn(f))}; }
GC_DEV Bfloat16 to_bfloat16(float f) { return {__bfloat16_as_ushort(__float2bfloat16_rn(f))}; }

#else

// Drops the low `shift` bits, rounding to nearest even. REQUIRES: 0 < shift < 32.
GC_DEV uint32_t round_off(uint32_t value, int shift) {
  const uint32_t kept = value >> shift;
  const uint32_t half = uint32_t{1} << (shift - 1);
  const uint32_t lost = value & (2 * half - 1);
  return kept + (lost > half || (lost == half && (kept & 1) != 0) ? 1 : 0);
}

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

}  // namespace gpucoll::proto
