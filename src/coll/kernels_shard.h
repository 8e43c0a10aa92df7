// What the shards' files consist of: GC_DEFINE_SHARD(shard) defines the functions of each kernel of the shard, for
// GPUs where nvcc compiles it and for the emulated device otherwise. Both run the same run_plan.
#pragma once
#include "coll/device/run_plan.h"
#include "coll/kernel_list.h"

#if defined(__CUDACC__)

#define GC_KERNEL_NAMESPACE gpucoll::coll::on_cuda
// 512 threads a block at most, one block a multiprocessor at least: 128 registers a thread.
#define GC_DEFINE_FUNCTION(name, reduction, algorithm)                                       \
  __global__ void __launch_bounds__(512, 1) name(const __grid_constant__ proto::Plan plan) { \
    device::run_plan<reduction, algorithm>(proto::CudaBlock{}, blockIdx.x, gridDim.x, plan); \
  }

#else

#include "gpu/emu/crew.h"
#define GC_KERNEL_NAMESPACE gpucoll::coll::on_emu
#define GC_DEFINE_FUNCTION(name, reduction, algorithm)                                                \
  void name(const gpu::EmuBlock& block, const proto::Plan& plan) {                                    \
    device::run_plan<reduction, algorithm>(gpu::emu::Crew(block), static_cast<uint32_t>(block.block), \
                                           static_cast<uint32_t>(block.n_blocks), plan);              \
  }

#endif

#define GC_DEFINE_KERNEL(name, reduction, element, type, other)                    \
  GC_DEFINE_FUNCTION(all_reduce_ring_##name, reduction<element>, device::ByRing<>) \
  GC_DEFINE_FUNCTION(all_reduce_one_shot_##name, reduction<element>, device::ByOneShot)

#define GC_DEFINE_SHARD(shard)         \
  namespace GC_KERNEL_NAMESPACE {      \
  using namespace proto;               \
  GC_KERNELS_##shard(GC_DEFINE_KERNEL) \
  }
