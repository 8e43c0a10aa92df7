// What the shards' files consist of: GC_DEFINE_SHARD(shard) defines one function for each kernel of the shard, for
// GPUs where nvcc compiles it and for the emulated device otherwise. Both run the same run_plan.
#pragma once
#include "coll/device/run_plan.h"
#include "coll/kernel_list.h"

#if defined(__CUDACC__)

#define GC_KERNEL_NAMESPACE gpucoll::coll::on_cuda
// 512 threads a block at most, one block a multiprocessor at least: 128 registers a thread.
#define GC_DEFINE_KERNEL(name, reduction, element, type, other)                                           \
  __global__ void __launch_bounds__(512, 1) all_reduce_##name(const __grid_constant__ proto::Plan plan) { \
    device::run_plan<reduction<element>>(proto::CudaBlock{}, blockIdx.x, gridDim.x, plan);                \
  }

#else

#include "gpu/emu/crew.h"
#define GC_KERNEL_NAMESPACE gpucoll::coll::on_emu
#define GC_DEFINE_KERNEL(name, reduction, element, type, other)                                     \
  void all_reduce_##name(const gpu::EmuBlock& block, const proto::Plan& plan) {                     \
    device::run_plan<reduction<element>>(gpu::emu::Crew(block), static_cast<uint32_t>(block.block), \
                                         static_cast<uint32_t>(block.n_blocks), plan);              \
  }

#endif

#define GC_DEFINE_SHARD(shard)         \
  namespace GC_KERNEL_NAMESPACE {      \
  using namespace proto;               \
  GC_KERNELS_##shard(GC_DEFINE_KERNEL) \
  }
