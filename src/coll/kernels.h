// The kernels of the collectives: which one serves a data type and an operation.
//
// Thread safety: constant data. Types whose signedness makes no difference to an operation share a reduction.
#pragma once
#include <span>

#include "gpu/device.h"
#include "proto/reduction.h"

namespace gpucoll::coll {

// The kernel that runs plans of a reduction's family, and the reduction's place in that family.
struct PlanKernel {
  const gpu::Kernel* kernel;
  uint8_t op;
};
// Null where the operation has no meaning for the type, for values that are none of the enumerators, and for what a
// developer's build has left out (GPUCOLL_KERNEL_SUBSET, see kernel_list.h): in both functions alike.
PlanKernel plan_kernel(proto::DataType type, proto::RedOp op) noexcept;
const gpu::Kernel* one_shot_kernel(proto::DataType type, proto::RedOp op) noexcept;
// Reduces on this device alone (proto/format/local_reduction.h), by the reduction's place in the family. Null as above,
// and where each rank changes its operands in a way of its own first (pre_mul_sum).
const gpu::Kernel* local_kernel(proto::DataType type, proto::RedOp op) noexcept;
// Whether the operation has a meaning for the type: where there is no kernel then, this build has left it out.
bool has_meaning(proto::DataType type, proto::RedOp op) noexcept;
// The kernel of plans that only move data; those of families do as well. And that of one-shots that only move.
const gpu::Kernel* move_kernel() noexcept;
const gpu::Kernel* one_shot_move_kernel() noexcept;
// The kernel that packs and unpacks elements with gaps (proto/format/packing.h).
const gpu::Kernel* packing_kernel() noexcept;

// All of this build.
std::span<const gpu::Kernel> all_kernels() noexcept;

}  // namespace gpucoll::coll
