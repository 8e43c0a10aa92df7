// The kernels of the collectives: which one serves a data type and an operation.
//
// Thread safety: constant data. Types whose signedness makes no difference to an operation share a reduction.
#pragma once
#include <span>

#include "gpu/device.h"
#include "proto/reduction.h"

namespace gpucoll::coll {

// The kernels that serve a reduction. All are null where the operation has no meaning for the type, for values that are
// none of the enumerators, and for what a developer's build has left out (GPUCOLL_KERNEL_SUBSET, see kernel_list.h).
struct ReductionKernels {
  const gpu::Kernel* plan;      // of plans by connections: rings and trees
  const gpu::Kernel* pairs;     // of plans by all pairs
  const gpu::Kernel* one_shot;  // of one-shots
  // Of plans on all ranks' buffers, or else by rings, and by all pairs. Null also where each rank changes its operands
  // in a way of its own first (pre_mul_sum), and where elements have padding.
  const gpu::Kernel *open_rings, *open_pairs;
  const gpu::Kernel* local;  // on this device alone (proto/format/local_reduction.h); null also for pre_mul_sum
  uint8_t op;                // the reduction's place in its family, whose kernels are plan, open_rings and local
};
ReductionKernels reduction_kernels(proto::DataType type, proto::RedOp op) noexcept;
// Whether the operation has a meaning for the type: where there is no kernel then, this build has left it out.
bool has_meaning(proto::DataType type, proto::RedOp op) noexcept;
// The kernel of plans that only move data; those of families do as well. And those that only move by all pairs, and as
// one-shots.
const gpu::Kernel* move_kernel() noexcept;
const gpu::Kernel* pairs_move_kernel() noexcept;
const gpu::Kernel* one_shot_move_kernel() noexcept;
// The kernel that packs and unpacks elements with gaps (proto/format/packing.h).
const gpu::Kernel* packing_kernel() noexcept;

// All of this build.
std::span<const gpu::Kernel> all_kernels() noexcept;

}  // namespace gpucoll::coll
