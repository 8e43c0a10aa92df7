// A cooperating group of threads. Protocols take a Coop and never name threadIdx, a warp or a barrier.
//
//   rank(), size()   this thread's place in the group
//   sync()           barrier; what any thread wrote before is visible to all after
//   any(flag)        barrier as well; true on every thread if `flag` was true on at least one
//   split(n)         this thread's part of the group, a Coop of its own, whose group() is its number: parts are runs of
//                    whole warps, part g of W warps has those from g * W / n to (g + 1) * W / n
//   lead(n)          the first n threads of the group, a Coop of their own (Lead); the others call nothing of it. Parts
//                    have it
//
// Solo is a group of one; CudaBlock a CUDA thread block, CudaWarps a part of one; the emulated device's groups are
// gpu::emu::ThreadBlock and ThreadBlockPart. Only whole blocks can be split, into at most kMaxGroups parts, and not
// more than they have warps. All threads must have met (sync() of the whole) between the use of the parts of two
// splits. A lead is the whole group, or whole warps of a group that has at least 3 of them on a GPU.
#pragma once
#include "proto/platform.h"

namespace gpucoll::proto {

inline constexpr int kMaxGroups = 16;
// Barriers of a block: its own, and one for each part; and as many for their leads.
inline constexpr int kLeadBarriers = 1 + kMaxGroups, kBarriers = 2 * kLeadBarriers;
// The most threads of a block, and the fast memory that they share, aligned to 16 bytes: who makes the block hands it
// to the kernel.
inline constexpr int kMaxThreads = 512;
inline constexpr int kSharedBytes = 1664;

// The part that thread `rank` of `size` is in, of n.
struct WarpRun {
  int group, first, size;
};
// REQUIRES: 1 <= n <= size / kWarp. Threads that make no whole warp are in the last part.
constexpr GC_HD WarpRun warp_run(int rank, int size, int n) {
  if (n == 1) return {0, 0, size};                                                     // nothing to divide
  const uint32_t parts = static_cast<uint32_t>(n), all = static_cast<uint32_t>(size);  // divided faster without signs
  const uint32_t warps = all / kWarp, own = static_cast<uint32_t>(rank) / kWarp;
  if (parts * kWarp == all) return {static_cast<int>(own), static_cast<int>(own * kWarp), kWarp};  // a warp each
  const uint32_t group = ((own < warps ? own + 1 : warps) * parts - 1) / warps;
  const uint32_t first = group * warps / parts * kWarp;
  const uint32_t past = group == parts - 1 ? all : (group + 1) * warps / parts * kWarp;
  return {static_cast<int>(group), static_cast<int>(first), static_cast<int>(past - first)};
}

struct Solo {
  GC_HD int rank() const { return 0; }
  GC_HD int size() const { return 1; }
  GC_HD void sync() const {}
  GC_HD bool any(bool flag) const { return flag; }
};

#if defined(__CUDACC__)

// Barrier `id` of the block, among `threads` threads: whole warps, whose threads come together.
GC_DEV void named_barrier(int id, int threads) {
#if GC_ON_GPU
  __syncwarp();
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
#endif
}
GC_DEV bool named_barrier_any(int id, int threads, bool flag) {
  uint32_t answer = 0;
#if GC_ON_GPU
  __syncwarp();
  asm volatile(
      "{\n\t.reg .pred mine, all;\n\tsetp.ne.u32 mine, %1, 0;\n\tbar.red.or.pred all, %2, %3, mine;\n\t"
      "selp.u32 %0, 1, 0, all;\n\t}"
      : "=r"(answer)
      : "r"(static_cast<uint32_t>(flag)), "r"(id), "r"(threads)
      : "memory");
#endif
  return answer != 0;
}

class CudaWarps {
 public:
  using Lead = CudaWarps;
  explicit GC_DEV CudaWarps(const WarpRun& run) : CudaWarps(run, 1 + run.group) {}
  GC_DEV CudaWarps(const WarpRun& run, int barrier) : run_(run), barrier_(barrier) {}
  GC_DEV int group() const { return run_.group; }
  GC_DEV int rank() const { return static_cast<int>(threadIdx.x) - run_.first; }
  GC_DEV int size() const { return run_.size; }
  GC_DEV void sync() const {
    if (run_.size == kWarp) return __syncwarp();
    named_barrier(barrier_, run_.size);
  }
  GC_DEV bool any(bool flag) const {
    if (run_.size == kWarp) return __any_sync(~0u, flag) != 0;
    return named_barrier_any(barrier_, run_.size, flag);
  }
  GC_DEV CudaWarps lead(int n) const {
    return {{run_.group, run_.first, n}, n == run_.size ? barrier_ : barrier_ + kLeadBarriers};
  }
  // The hardware has 16 barriers; parts of two warps and more take up to 8.
  static constexpr int kLeadBarriers = 9;

 private:
  WarpRun run_;
  int barrier_;
};

struct CudaBlock {
  GC_DEV int rank() const { return static_cast<int>(threadIdx.x); }
  GC_DEV int size() const { return static_cast<int>(blockDim.x); }
  GC_DEV void sync() const { __syncthreads(); }
  GC_DEV bool any(bool flag) const { return __syncthreads_or(flag) != 0; }
  GC_DEV CudaWarps split(int n) const { return CudaWarps(warp_run(rank(), size(), n)); }
};

#endif

}  // namespace gpucoll::proto
