// The only file that knows whether protocol code runs on a GPU or on the CPU.
//
// Everything under src/proto and src/kernels is written against these names and compiles unchanged with
// nvcc and with a host compiler. Memory orders: acquire and release at system scope become ld.acquire.sys and
// st.release.sys on a GPU, so protocol code needs no stand-alone fences (and must not use any: ThreadSanitizer
// does not see them; synchronise on the word instead).
//
// GC_DEV marks functions of device code, GC_HD those of host and device code, GC_NOINLINE device code that is compiled
// once and called: inner loops, so that what is around them is not compiled anew for each.
#pragma once
#include <cstddef>
#include <cstdint>
#ifdef GC_MUTANTS
#include <cstdlib>
#endif

#if defined(__CUDACC__)
#include <cuda/atomic>
#define GC_HD __host__ __device__ __forceinline__
#define GC_DEV __device__ __forceinline__
#define GC_NOINLINE __device__ __noinline__
#define GC_UNROLL _Pragma("unroll")
#define GC_NO_UNROLL _Pragma("unroll 1")
#else
#include <sched.h>
#include <time.h>
#define GC_HD inline
#define GC_DEV inline
#define GC_NOINLINE __attribute__((noinline))
#define GC_UNROLL
#define GC_NO_UNROLL
#endif
// Device code is compiled by nvcc's device pass; the host pass of a .cu file only declares it.
#if defined(__CUDA_ARCH__)
#define GC_ON_GPU 1
#else
#define GC_ON_GPU 0
#endif

namespace gpucoll::proto {

// Mutants, to prove that the tests bite: 1, 2 and 12 are of primitives.h, 3 of ll.h, 4 to 6 and 11 of one_shot.h and
// run_plan.h, 7 of line_primitives.h, 8 of ll128.h, 9, 10 and 20 of direct.h, 13 and 21 of run_plan.h, 14 and 15 of
// all_pairs_lines.h, 16 to 19 and 30 of zero_copy.h. Tests compiled with GC_MUTANTS are the one that the environment's
// GC_MUTANT names; elsewhere it is a constant, and what they would do is not in the program.
#ifdef GC_MUTANTS
inline const int kMutant = [] {
  const char* const number = std::getenv("GC_MUTANT");
  return number == nullptr ? 0 : std::atoi(number);
}();
#else
inline constexpr int kMutant = 0;
#endif

// Two words, stored and loaded together. Each of them is whole; nothing orders the two, so that each has to tell of
// its own arrival.
struct alignas(16) WordPair {
  uint64_t first, second;
};

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
// Stays behind the loads whose values have been used before, by this thread or by others that it has met since;
// not behind stores. For who gives memory back that it has read: a release would wait for the stores on their way as
// well.
template <class T>
GC_DEV void store_after_loads(T* p, T value) {
  store_relaxed(p, value);
}
// For the host, of what lies in this device's memory or has been read: whoever sees the value finds all that this
// thread, and those it has met, wrote there, if it looks through this device (later work, copies). store_release waits
// for the stores to other devices and to the host as well, which takes longer than all else that a small kernel does.
template <class T>
GC_DEV void store_release_own(T* p, T value) {
  cuda::atomic_thread_fence(cuda::memory_order_release, cuda::thread_scope_device);
  store_relaxed(p, value);
}
// Comes before the stores of who has looked at the value, and of those it has met since; not before loads. For who
// waits to be given memory back that it will only write to.
template <class T>
GC_DEV T load_before_stores(const T* p) {
  return load_relaxed(p);
}
// Among the blocks of one launch only.
template <class T>
GC_DEV T fetch_add_acq_rel(T* p, T value) {
  return DeviceAtomic<T>(*p).fetch_add(value, cuda::memory_order_acq_rel);
}
// Both words by one instruction. See WordPair for what may be relied on.
GC_DEV WordPair load_relaxed_pair(const WordPair* p) {
  WordPair pair{};
#if GC_ON_GPU
  asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];"
               : "=l"(pair.first), "=l"(pair.second)
               : "l"(__cvta_generic_to_global(p)));
#endif
  return pair;
}
GC_DEV void store_relaxed_pair(WordPair* p, WordPair pair) {
#if GC_ON_GPU
  asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};" ::"l"(__cvta_generic_to_global(p)), "l"(pair.first),
               "l"(pair.second)
               : "memory");
#endif
}
// Store and load words about data that were there before this launch began: the order of launches orders these already.
GC_DEV void store_pair_after_launches(WordPair* p, WordPair pair) { store_relaxed_pair(p, pair); }
GC_DEV WordPair load_pair_after_launches(const WordPair* p) { return load_relaxed_pair(p); }
// Called once in each turn of a wait loop.
GC_DEV void pause() {}
// Returns the time of a clock that runs on.
GC_DEV uint64_t now_ns() {
  uint64_t now = 0;
#if GC_ON_GPU
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
#endif
  return now;
}
// Threads of a group that issue their loads and stores together: neighbours should use neighbouring addresses, and
// two that wait for different things should not be among them.
inline constexpr int kWarp = 32;
// A group of at least so many warps spares one for what would keep all others waiting.
inline constexpr int kWarpsToSpareOne = 8;
// Looks at the fault latch are this many turns of a wait loop apart, 2 or 3 ms: it lies in host memory, across the bus.
// Warps that look at once wait for each other, a microsecond each: so each begins to count at another number.
inline constexpr uint32_t kLatchPeriod = 4096;
GC_DEV uint32_t first_turn() {
#if GC_ON_GPU
  constexpr uint32_t kMostWarps = 16, kApart = 8;
  return 1 + (blockIdx.x * kMostWarps + threadIdx.x / kWarp) * kApart % (kLatchPeriod / 2);
#else
  return 1;
#endif
}
// All threads of a warp call these together.
GC_DEV void sync_warp() {
#if GC_ON_GPU
  __syncwarp();
#endif
}
// True on every thread if `flag` was true on at least one.
GC_DEV bool any_of_warp(bool flag) {
#if GC_ON_GPU
  return __any_sync(~0u, flag) != 0;
#else
  return flag;
#endif
}

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
// C++ orders loads before a store by release only.
template <class T>
inline void store_after_loads(T* p, T value) {
  store_release(p, value);
}
template <class T>
inline void store_release_own(T* p, T value) {
  store_release(p, value);
}
template <class T>
inline T load_before_stores(const T* p) {
  return load_acquire(p);
}
template <class T>
inline T fetch_add_acq_rel(T* p, T value) {
  return __atomic_fetch_add(p, value, __ATOMIC_ACQ_REL);
}
// Two cores must carry many emulated blocks: whoever waits gives its core away.
inline void pause() { sched_yield(); }
inline uint64_t now_ns() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}
// The words go in random order, now and then with a pause between them, so that a protocol that relies on more than
// WordPair promises fails.
inline WordPair load_relaxed_pair(const WordPair* p) { return {load_relaxed(&p->first), load_relaxed(&p->second)}; }
inline void store_relaxed_pair(WordPair* p, WordPair pair) {
  static thread_local uint32_t random = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(&random)) | 1;
  random ^= random << 13;
  random ^= random >> 17;
  random ^= random << 5;
  const bool second_first = (random & 1) != 0;
  store_relaxed(second_first ? &p->second : &p->first, second_first ? pair.second : pair.first);
  if (random >> 26 == 0) pause();
  store_relaxed(second_first ? &p->first : &p->second, second_first ? pair.first : pair.second);
}
inline void store_pair_after_launches(WordPair* p, WordPair pair) {
  store_release(&p->first, pair.first);
  store_release(&p->second, pair.second);
}
inline WordPair load_pair_after_launches(const WordPair* p) {
  return {load_acquire(&p->first), load_acquire(&p->second)};
}
inline constexpr uint32_t kLatchPeriod = 1;
inline uint32_t first_turn() { return 1; }
// A test compiles with more, to check the arithmetic that wider warps need.
#ifndef GC_CPU_WARP
#define GC_CPU_WARP 1
#endif
inline constexpr int kWarp = GC_CPU_WARP;
inline constexpr int kWarpsToSpareOne = 3;
// Each thread of a CPU goes its own way: protocols take it for a warp of its own where these matter.
inline void sync_warp() {}
inline bool any_of_warp(bool flag) { return flag; }

#endif

// The number of bits that are set, and the position of the lowest one. REQUIRES, of the second: there is one.
GC_HD uint32_t count_bits(uint64_t mask) {
#if GC_ON_GPU
  return static_cast<uint32_t>(__popcll(mask));
#else
  return static_cast<uint32_t>(__builtin_popcountll(mask));
#endif
}
GC_HD uint32_t lowest_bit(uint64_t mask) {
#if GC_ON_GPU
  return static_cast<uint32_t>(__ffsll(static_cast<long long>(mask)) - 1);
#else
  return static_cast<uint32_t>(__builtin_ctzll(mask));
#endif
}
// a / b. GPUs divide numbers of 64 bits slowly, and most that there are to divide have fewer.
GC_HD uint64_t quotient(uint64_t a, uint64_t b) {
  if (((a | b) >> 32) == 0) return static_cast<uint32_t>(a) / static_cast<uint32_t>(b);
  return a / b;
}

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
// Load and store at any address; byte by byte on a GPU.
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

// Loads a pack that others may be writing; the caller uses nothing that they write. Words are whole on every target.
GC_DEV Pack load_beside_writes(const uint8_t* p) {
#if defined(__CUDACC__)
  return load<Pack>(p);
#else
  uint64_t words[2];
  for (int w = 0; w < 2; ++w) words[w] = load_relaxed(reinterpret_cast<const uint64_t*>(p) + w);
  Pack pack;
  __builtin_memcpy(&pack, words, sizeof pack);
  return pack;
#endif
}
// Where others may be writing the same value.
GC_DEV void store_beside_writes(uint64_t* p, uint64_t value) {
#if defined(__CUDACC__)
  *p = value;
#else
  store_relaxed(p, value);
#endif
}

}  // namespace gpucoll::proto
