// A cooperating group of threads. Protocols take a Coop and never name threadIdx, a warp or a barrier.
//
//   rank(), size()   this thread's place in the group
//   sync()           barrier; what any thread wrote before is visible to all after
//   any(flag)        barrier as well; true on every thread if `flag` was true on at least one
//
// Solo is a group of one; CudaBlock a CUDA thread block; the emulated device's group is gpu::emu::Crew.
#pragma once
#include "proto/platform.h"

namespace gpucoll::proto {

struct Solo {
  GC_HD int rank() const { return 0; }
  GC_HD int size() const { return 1; }
  GC_HD void sync() const {}
  GC_HD bool any(bool flag) const { return flag; }
};

#if defined(__CUDACC__)
struct CudaBlock {
  GC_DEV int rank() const { return static_cast<int>(threadIdx.x); }
  GC_DEV int size() const { return static_cast<int>(blockDim.x); }
  GC_DEV void sync() const { __syncthreads(); }
  GC_DEV bool any(bool flag) const { return __syncthreads_or(flag) != 0; }
};
#endif

}  // namespace gpucoll::proto
