// The only file that knows whether protocol code runs on a GPU or on the CPU.
//
// Everything under src/proto and src/coll/device is written against these names and compiles unchanged with
// nvcc and with a host compiler. Memory orders: acquire and release at system scope become ld.acquire.sys and
// st.release.sys on a GPU, so protocol code needs no stand-alone fences (and must not use any: ThreadSanitizer
// does not see them; synchronise on the word instead).
#pragma once
#include <cstddef>
#include <cstdint>

#if defined(__CUDACC__)
#include <cuda/atomic>
#define GC_HD __host__ __device__ __forceinline__
#define GC_DEV __device__ __forceinline__
#define GC_UNROLL _Pragma("unroll")
#else
#include <sched.h>
#define GC_HD inline
#define GC_DEV inline
#define GC_UNROLL
#endif
// Device code is compiled by nvcc's device pass; the host pass of a .cu file only declares it.
#if defined(__CUDA_ARCH__)
#define GC_ON_GPU 1
#else
#define GC_ON_GPU 0
#endif

namespace gpucoll::proto {

#if defined(__CUDACC__)

template <class T>
using SystemAtomic = cuda::atomic_ref<T, cuda::thread_scope_system>;
template <class T>
using DeviceAtomic = cuda::atomic_ref<T, cuda::thread_scope_device>;

template <class T>
GC_DEV T load_acquire(const T* p) {
  return SystemAtomic<T>(*const_cast<T*>(p)).load(cuda::memory_order_acquire);
}
template <class T>
GC_DEV T load_relaxed(const T* p) {
  return SystemAtomic<T>(*const_cast<T*>(p)).load(cuda::memory_order_relaxed);
}
template <class T>
GC_DEV void store_release(T* p, T value) {
  SystemAtomic<T>(*p).store(value, cuda::memory_order_release);
}
template <class T>
GC_DEV void store_relaxed(T* p, T value) {
  SystemAtomic<T>(*p).store(value, cuda::memory_order_relaxed);
}
// Among the blocks of one launch only.
template <class T>
GC_DEV T fetch_add_acq_rel(T* p, T value) {
  return DeviceAtomic<T>(*p).fetch_add(value, cuda::memory_order_acq_rel);
}
// Called once in each turn of a wait loop.
GC_DEV void pause() {}
// Looks at the fault latch are this many turns of a wait loop apart: it lies in host memory, across the bus.
inline constexpr uint32_t kLatchPeriod = 512;
// Threads of a group that issue their loads and stores together: neighbours should use neighbouring addresses, and
// two that wait for different things should not be among them.
inline constexpr int kWarp = 32;

#else

template <class T>
inline T load_acquire(const T* p) {
  return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}
template <class T>
inline T load_relaxed(const T* p) {
  return __atomic_load_n(p, __ATOMIC_RELAXED);
}
template <class T>
inline void store_release(T* p, T value) {
  __atomic_store_n(p, value, __ATOMIC_RELEASE);
}
template <class T>
inline void store_relaxed(T* p, T value) {
  __atomic_store_n(p, value, __ATOMIC_RELAXED);
}
template <class T>
inline T fetch_add_acq_rel(T* p, T value) {
  return __atomic_fetch_add(p, value, __ATOMIC_ACQ_REL);
}
// Two cores must carry many emulated blocks: whoever waits gives its core away.
inline void pause() { sched_yield(); }
inline constexpr uint32_t kLatchPeriod = 1;
// A test compiles with more, to check the arithmetic that wider warps need.
#ifndef GC_CPU_WARP
#define GC_CPU_WARP 1
#endif
inline constexpr int kWarp = GC_CPU_WARP;

#endif

// The unit of bulk movement: 16 bytes, one vector load or store.
struct alignas(16) Pack {
  uint32_t word[4];
};

// Plain loads and stores of a T at an address that is a multiple of alignof(T). The same memory is read as packs
// and as elements, so the CPU goes through memcpy (one instruction all the same): typed pointers would let its
// compiler assume that the two never meet. A GPU's compiler would cut a memcpy into bytes instead.
template <class T>
GC_DEV T load(const uint8_t* p) {
#if GC_ON_GPU
  return *reinterpret_cast<const T*>(p);
#else
  T value;
  __builtin_memcpy(&value, __builtin_assume_aligned(p, alignof(T)), sizeof(T));
  return value;
#endif
}
template <class T>
GC_DEV void store(uint8_t* p, const T& value) {
#if GC_ON_GPU
  *reinterpret_cast<T*>(p) = value;
#else
  __builtin_memcpy(__builtin_assume_aligned(p, alignof(T)), &value, sizeof(T));
#endif
}
// The same at any address; byte by byte on a GPU.
template <class T>
GC_DEV T load_unaligned(const uint8_t* p) {
  T value;
  __builtin_memcpy(&value, p, sizeof(T));
  return value;
}
template <class T>
GC_DEV void store_unaligned(uint8_t* p, const T& value) {
  __builtin_memcpy(p, &value, sizeof(T));
}

}  // namespace gpucoll::proto
