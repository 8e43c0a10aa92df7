// The list of kernels, in shards: a shard is compiled on its own, once for the emulated device (kernels_<shard>.cpp)
// and once for GPUs (kernels_<shard>_cuda.cu), so that the build is parallel and no file takes long.
//
// A shard has families (proto/family.h). GC_FAMILIES_<shard>(F) expands to F(family) for each of them, and
// GC_REDUCTIONS_<family>(K) to K(family, name, Reduction, element, type, other) for each of a family's reductions, in
// the order of their places. A family has kernels that run plans (kernels/dispatch.h), plan_<family> and
// open_rings_<family>, and one that reduces on this device alone, local_<family>. A reduction has kernels of its own
// for one-shots, one_shot_<name>, and for plans by all pairs, pairs_<name> and open_pairs_<name>; it serves the data
// types `type` and `other` (the same twice where only one). The shard `move` has plan_move, pairs_move and
// one_shot_move, without reductions, and packing.
//
// For a short CUDA build, `make GPUCOLL_KERNEL_SUBSET="f32 i32"` compiles these shards and `move` only; the others'
// kernels are missing then. It arrives here as GC_KERNEL_SUBSET and GC_KERNEL_SHARD_<shard>.
#pragma once
#include "proto/family.h"

// Where the sign makes no difference, one reduction serves both types.
#define GC_REDUCTIONS_INTEGER(K, bits)                                    \
  K(i##bits, u##bits##_sum, Sum, uint##bits##_t, int##bits, uint##bits)   \
  K(i##bits, u##bits##_prod, Prod, uint##bits##_t, int##bits, uint##bits) \
  K(i##bits, i##bits##_max, Max, int##bits##_t, int##bits, int##bits)     \
  K(i##bits, i##bits##_min, Min, int##bits##_t, int##bits, int##bits)     \
  K(i##bits, u##bits##_max, Max, uint##bits##_t, uint##bits, uint##bits)  \
  K(i##bits, u##bits##_min, Min, uint##bits##_t, uint##bits, uint##bits)  \
  K(i##bits, u##bits##_band, Band, uint##bits##_t, int##bits, uint##bits) \
  K(i##bits, u##bits##_bor, Bor, uint##bits##_t, int##bits, uint##bits)   \
  K(i##bits, u##bits##_bxor, Bxor, uint##bits##_t, int##bits, uint##bits) \
  K(i##bits, u##bits##_land, Land, uint##bits##_t, int##bits, uint##bits) \
  K(i##bits, u##bits##_lor, Lor, uint##bits##_t, int##bits, uint##bits)   \
  K(i##bits, u##bits##_lxor, Lxor, uint##bits##_t, int##bits, uint##bits) \
  K(i##bits, i##bits##_avg, Avg, int##bits##_t, int##bits, int##bits)     \
  K(i##bits, u##bits##_avg, Avg, uint##bits##_t, uint##bits, uint##bits)  \
  K(i##bits, u##bits##_pre_mul_sum, PreMulSum, uint##bits##_t, int##bits, uint##bits)
#define GC_REDUCTIONS_COMPLEX(K, family, name, element, type) \
  K(family, name##_sum, Sum, element, type, type)             \
  K(family, name##_prod, Prod, element, type, type)           \
  K(family, name##_avg, Avg, element, type, type)             \
  K(family, name##_pre_mul_sum, PreMulSum, element, type, type)
#define GC_REDUCTIONS_FLOAT(K, family, name, element, type) \
  GC_REDUCTIONS_COMPLEX(K, family, name, element, type)     \
  K(family, name##_max, Max, element, type, type)           \
  K(family, name##_min, Min, element, type, type)
#define GC_REDUCTIONS_PAIR(K, family, element, type)    \
  K(family, type##_maxloc, Maxloc, element, type, type) \
  K(family, type##_minloc, Minloc, element, type, type)

#define GC_REDUCTIONS_i8(K) GC_REDUCTIONS_INTEGER(K, 8)
#define GC_REDUCTIONS_i16(K) GC_REDUCTIONS_INTEGER(K, 16)
#define GC_REDUCTIONS_i32(K) GC_REDUCTIONS_INTEGER(K, 32)
#define GC_REDUCTIONS_i64(K) GC_REDUCTIONS_INTEGER(K, 64)
#define GC_REDUCTIONS_f16(K) GC_REDUCTIONS_FLOAT(K, f16, f16, Half, float16)
#define GC_REDUCTIONS_bf16(K) GC_REDUCTIONS_FLOAT(K, bf16, bf16, Bfloat16, bfloat16)
#define GC_REDUCTIONS_f8e4m3(K) GC_REDUCTIONS_FLOAT(K, f8e4m3, f8e4m3, Float8E4m3, float8_e4m3)
#define GC_REDUCTIONS_f8e5m2(K) GC_REDUCTIONS_FLOAT(K, f8e5m2, f8e5m2, Float8E5m2, float8_e5m2)
#define GC_REDUCTIONS_f32(K) GC_REDUCTIONS_FLOAT(K, f32, f32, float, float32)
#define GC_REDUCTIONS_f64(K) GC_REDUCTIONS_FLOAT(K, f64, f64, double, float64)
#define GC_REDUCTIONS_c64(K) GC_REDUCTIONS_COMPLEX(K, c64, c64, Complex<float>, complex64)
#define GC_REDUCTIONS_c128(K) GC_REDUCTIONS_COMPLEX(K, c128, c128, Complex<double>, complex128)
// Pairs by size, and by whether they have padding.
#define GC_REDUCTIONS_pairs8(K)                      \
  GC_REDUCTIONS_PAIR(K, pairs8, FloatInt, float_int) \
  GC_REDUCTIONS_PAIR(K, pairs8, IntInt, int_int)     \
  GC_REDUCTIONS_PAIR(K, pairs8, FloatFloat, float_float)
#define GC_REDUCTIONS_pairs8_padded(K) GC_REDUCTIONS_PAIR(K, pairs8_padded, ShortInt, short_int)
#define GC_REDUCTIONS_pairs16(K) GC_REDUCTIONS_PAIR(K, pairs16, DoubleDouble, double_double)
#define GC_REDUCTIONS_pairs16_padded(K)                        \
  GC_REDUCTIONS_PAIR(K, pairs16_padded, DoubleInt, double_int) \
  GC_REDUCTIONS_PAIR(K, pairs16_padded, LongInt, long_int)
#define GC_REDUCTIONS_move(K)

#if !defined(GC_KERNEL_SUBSET) || defined(GC_KERNEL_SHARD_i8)
#define GC_FAMILIES_i8(F) F(i8)
#else
#define GC_FAMILIES_i8(F)
#endif
#if !defined(GC_KERNEL_SUBSET) || defined(GC_KERNEL_SHARD_i16)
#define GC_FAMILIES_i16(F) F(i16)
#else
#define GC_FAMILIES_i16(F)
#endif
#if !defined(GC_KERNEL_SUBSET) || defined(GC_KERNEL_SHARD_i32)
#define GC_FAMILIES_i32(F) F(i32)
#else
#define GC_FAMILIES_i32(F)
#endif
#if !defined(GC_KERNEL_SUBSET) || defined(GC_KERNEL_SHARD_i64)
#define GC_FAMILIES_i64(F) F(i64)
#else
#define GC_FAMILIES_i64(F)
#endif
#if !defined(GC_KERNEL_SUBSET) || defined(GC_KERNEL_SHARD_f8)
#define GC_FAMILIES_f8(F) F(f8e4m3) F(f8e5m2)
#else
#define GC_FAMILIES_f8(F)
#endif
#if !defined(GC_KERNEL_SUBSET) || defined(GC_KERNEL_SHARD_f16)
#define GC_FAMILIES_f16(F) F(f16) F(bf16)
#else
#define GC_FAMILIES_f16(F)
#endif
#if !defined(GC_KERNEL_SUBSET) || defined(GC_KERNEL_SHARD_f32)
#define GC_FAMILIES_f32(F) F(f32)
#else
#define GC_FAMILIES_f32(F)
#endif
#if !defined(GC_KERNEL_SUBSET) || defined(GC_KERNEL_SHARD_f64)
#define GC_FAMILIES_f64(F) F(f64)
#else
#define GC_FAMILIES_f64(F)
#endif
#if !defined(GC_KERNEL_SUBSET) || defined(GC_KERNEL_SHARD_complex)
#define GC_FAMILIES_complex(F) F(c64) F(c128)
#else
#define GC_FAMILIES_complex(F)
#endif
#if !defined(GC_KERNEL_SUBSET) || defined(GC_KERNEL_SHARD_pairs)
#define GC_FAMILIES_pairs(F) F(pairs8) F(pairs8_padded) F(pairs16) F(pairs16_padded)
#else
#define GC_FAMILIES_pairs(F)
#endif

// All but `move`, whether this build has them or not.
// clang-format off
#define GC_KNOWN_FAMILIES(F)                                                   \
  F(i8) F(i16) F(i32) F(i64) F(f8e4m3) F(f8e5m2) F(f16) F(bf16) F(f32) F(f64)  \
  F(c64) F(c128) F(pairs8) F(pairs8_padded) F(pairs16) F(pairs16_padded)
// clang-format on
// Those that it has.
#define GC_REDUCING_FAMILIES(F)                                                                                   \
  GC_FAMILIES_i8(F) GC_FAMILIES_i16(F) GC_FAMILIES_i32(F) GC_FAMILIES_i64(F) GC_FAMILIES_f8(F) GC_FAMILIES_f16(F) \
      GC_FAMILIES_f32(F) GC_FAMILIES_f64(F) GC_FAMILIES_complex(F) GC_FAMILIES_pairs(F)
#define GC_ALL_FAMILIES(F) GC_REDUCING_FAMILIES(F) F(move)

namespace gpucoll::coll {

// The families as types. Lists have a `void` in front, as commas come before.
template <class Nothing, class... Reds>
struct FamilyOf {
  using Type = proto::Family<Reds...>;
};
template <>
struct FamilyOf<void> {
  using Type = proto::Bytes;
};

namespace families {
using namespace proto;
#define GC_AND_TYPE(family, name, Reduction, element, type, other) , Reduction<element>
#define GC_FAMILY_TYPE(family) using family = FamilyOf<void GC_REDUCTIONS_##family(GC_AND_TYPE)>::Type;
GC_ALL_FAMILIES(GC_FAMILY_TYPE)
#undef GC_FAMILY_TYPE
#undef GC_AND_TYPE
}  // namespace families

}  // namespace gpucoll::coll
