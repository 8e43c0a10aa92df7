// Defines the contents of the shards' files: GC_DEFINE_SHARD(shard) defines the functions of each kernel of the shard,
// for GPUs where nvcc compiles it and for the emulated device otherwise. Both run the same run_plan. The shard `move`
// is GC_DEFINE_MOVE.
#pragma once
#include "kernels/kernel_list.h"
#include "kernels/local_reduce.h"
#include "kernels/packing.h"
#include "kernels/run_plan.h"

#if defined(__CUDACC__)

#define GC_KERNEL_NAMESPACE gpucoll::coll::on_cuda
// One block a multiprocessor at least: 128 registers a thread.
#define GC_DEFINE_KERNEL(name, run, ...)                                                                    \
  __global__ void __launch_bounds__(proto::kMaxThreads, 1) name(const __grid_constant__ proto::Plan plan) { \
    alignas(128) __shared__ proto::Pack shared[proto::kSharedBytes / sizeof(proto::Pack)];                  \
    device::run<__VA_ARGS__>(proto::CudaBlock{}, blockIdx.x, gridDim.x, plan, shared);                      \
  }
#define GC_PAIRED(family, Red) Red

#else

#include "gpu/emu/thread_block.h"
#define GC_KERNEL_NAMESPACE gpucoll::coll::on_emu
#define GC_DEFINE_KERNEL(name, run, ...)                                                       \
  void name(const gpu::EmuBlock& block, const proto::Plan& plan) {                             \
    device::run<__VA_ARGS__>(gpu::emu::ThreadBlock(block), static_cast<uint32_t>(block.block), \
                             static_cast<uint32_t>(block.n_blocks), plan, block.shared);       \
  }
// One for all reductions of a family: registers do not matter here, but the time to compile does.
#define GC_PAIRED(family, Red) proto::OneOf<families::family>

#endif

#define GC_DEFINE_REDUCTION(family, name, Reduction, element, type, other)                                 \
  GC_DEFINE_KERNEL(one_shot_##name, run_one_shots, Reduction<element>)                                     \
  GC_DEFINE_KERNEL(pairs_##name, run_plan, device::AllPairsVariant<GC_PAIRED(family, Reduction<element>)>) \
  GC_DEFINE_KERNEL(open_pairs_##name, run_plan, device::ZeroCopyOrAllPairs<GC_PAIRED(family, Reduction<element>)>)
#define GC_DEFINE_FAMILY(family)                                                            \
  GC_DEFINE_KERNEL(plan_##family, run_plan, device::ConnectionVariant<families::family>)    \
  GC_DEFINE_KERNEL(open_rings_##family, run_plan, device::ZeroCopyOrRing<families::family>) \
  GC_DEFINE_KERNEL(local_##family, run_local_reduce, families::family)                      \
  GC_REDUCTIONS_##family(GC_DEFINE_REDUCTION)

#define GC_DEFINE_MOVE                                                                    \
  namespace GC_KERNEL_NAMESPACE {                                                         \
  GC_DEFINE_KERNEL(plan_move, run_plan, device::ConnectionVariant<families::move>)        \
  GC_DEFINE_KERNEL(pairs_move, run_plan, device::AllPairsVariant<proto::CopyOf<uint8_t>>) \
  GC_DEFINE_KERNEL(one_shot_move, run_one_shots, proto::CopyOf<uint8_t>)                  \
  GC_DEFINE_KERNEL(packing, run_packing, void)                                            \
  }
#define GC_DEFINE_SHARD(shard)          \
  namespace GC_KERNEL_NAMESPACE {       \
  using namespace proto;                \
  GC_FAMILIES_##shard(GC_DEFINE_FAMILY) \
  }
