// The list of kernels, in shards: a shard is compiled on its own, once for the emulated device (kernels_<shard>.cpp)
// and once for GPUs (kernels_<shard>_cuda.cu), so that the build is parallel and no file takes long.
//
// GC_KERNELS_<shard>(K) expands to K(name, Reduction, Element, type, other) for each kernel: it has a form
// for each algorithm, all_reduce_ring_<name> and all_reduce_one_shot_<name>, and serves the data types `type` and
// `other` (the same twice where only one).
//
// For a short CUDA build, `make GPUCOLL_KERNEL_SUBSET="f32 i32"` compiles these shards only; the others' kernels are
// missing then. It arrives here as GC_KERNEL_SUBSET and GC_KERNEL_SHARD_<shard>.
#pragma once

#define GC_KERNELS_INTEGER(K, bits)                              \
  K(u##bits##_sum, Sum, uint##bits##_t, int##bits, uint##bits)   \
  K(u##bits##_prod, Prod, uint##bits##_t, int##bits, uint##bits) \
  K(i##bits##_max, Max, int##bits##_t, int##bits, int##bits)     \
  K(i##bits##_min, Min, int##bits##_t, int##bits, int##bits)     \
  K(u##bits##_max, Max, uint##bits##_t, uint##bits, uint##bits)  \
  K(u##bits##_min, Min, uint##bits##_t, uint##bits, uint##bits)  \
  K(u##bits##_band, Band, uint##bits##_t, int##bits, uint##bits) \
  K(u##bits##_bor, Bor, uint##bits##_t, int##bits, uint##bits)   \
  K(u##bits##_bxor, Bxor, uint##bits##_t, int##bits, uint##bits) \
  K(u##bits##_land, Land, uint##bits##_t, int##bits, uint##bits) \
  K(u##bits##_lor, Lor, uint##bits##_t, int##bits, uint##bits)   \
  K(u##bits##_lxor, Lxor, uint##bits##_t, int##bits, uint##bits)
#define GC_KERNELS_FLOAT(K, name, element, type) \
  K(name##_sum, Sum, element, type, type)        \
  K(name##_prod, Prod, element, type, type)      \
  K(name##_max, Max, element, type, type)        \
  K(name##_min, Min, element, type, type)
#define GC_KERNELS_COMPLEX(K, name, element, type) \
  K(name##_sum, Sum, element, type, type)          \
  K(name##_prod, Prod, element, type, type)
#define GC_KERNELS_PAIR(K, element, type)       \
  K(type##_maxloc, Maxloc, element, type, type) \
  K(type##_minloc, Minloc, element, type, type)

#if !defined(GC_KERNEL_SUBSET) || defined(GC_KERNEL_SHARD_i8)
#define GC_KERNELS_i8(K) GC_KERNELS_INTEGER(K, 8)
#else
#define GC_KERNELS_i8(K)
#endif
#if !defined(GC_KERNEL_SUBSET) || defined(GC_KERNEL_SHARD_i16)
#define GC_KERNELS_i16(K) GC_KERNELS_INTEGER(K, 16)
#else
#define GC_KERNELS_i16(K)
#endif
#if !defined(GC_KERNEL_SUBSET) || defined(GC_KERNEL_SHARD_i32)
#define GC_KERNELS_i32(K) GC_KERNELS_INTEGER(K, 32)
#else
#define GC_KERNELS_i32(K)
#endif
#if !defined(GC_KERNEL_SUBSET) || defined(GC_KERNEL_SHARD_i64)
#define GC_KERNELS_i64(K) GC_KERNELS_INTEGER(K, 64)
#else
#define GC_KERNELS_i64(K)
#endif
#if !defined(GC_KERNEL_SUBSET) || defined(GC_KERNEL_SHARD_f16)
#define GC_KERNELS_f16(K) GC_KERNELS_FLOAT(K, f16, Half, float16) GC_KERNELS_FLOAT(K, bf16, Bfloat16, bfloat16)
#else
#define GC_KERNELS_f16(K)
#endif
#if !defined(GC_KERNEL_SUBSET) || defined(GC_KERNEL_SHARD_f32)
#define GC_KERNELS_f32(K) GC_KERNELS_FLOAT(K, f32, float, float32)
#else
#define GC_KERNELS_f32(K)
#endif
#if !defined(GC_KERNEL_SUBSET) || defined(GC_KERNEL_SHARD_f64)
#define GC_KERNELS_f64(K) GC_KERNELS_FLOAT(K, f64, double, float64)
#else
#define GC_KERNELS_f64(K)
#endif
#if !defined(GC_KERNEL_SUBSET) || defined(GC_KERNEL_SHARD_complex)
#define GC_KERNELS_complex(K)                           \
  GC_KERNELS_COMPLEX(K, c64, Complex<float>, complex64) \
  GC_KERNELS_COMPLEX(K, c128, Complex<double>, complex128)
#else
#define GC_KERNELS_complex(K)
#endif
#if !defined(GC_KERNEL_SUBSET) || defined(GC_KERNEL_SHARD_pairs)
#define GC_KERNELS_pairs(K)                   \
  GC_KERNELS_PAIR(K, FloatInt, float_int)     \
  GC_KERNELS_PAIR(K, DoubleInt, double_int)   \
  GC_KERNELS_PAIR(K, LongInt, long_int)       \
  GC_KERNELS_PAIR(K, IntInt, int_int)         \
  GC_KERNELS_PAIR(K, ShortInt, short_int)     \
  GC_KERNELS_PAIR(K, FloatFloat, float_float) \
  GC_KERNELS_PAIR(K, DoubleDouble, double_double)
#else
#define GC_KERNELS_pairs(K)
#endif

#define GC_ALL_KERNELS(K)                                                                                    \
  GC_KERNELS_i8(K) GC_KERNELS_i16(K) GC_KERNELS_i32(K) GC_KERNELS_i64(K) GC_KERNELS_f16(K) GC_KERNELS_f32(K) \
      GC_KERNELS_f64(K) GC_KERNELS_complex(K) GC_KERNELS_pairs(K)
