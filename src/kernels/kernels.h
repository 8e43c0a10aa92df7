// The kernels of the collectives: which one serves a data type and an operation.
//
// Thread safety: constant data. Types whose signedness makes no difference to an operation share a reduction.
#pragma once
#include <span>

#include "core/plan/task.h"
#include "gpu/device.h"
#include "proto/reduction.h"

namespace gpucoll::coll {

// Returns the kernels of a reduction. All are null where the operation has no meaning for the type, for values that are
// none of the enumerators, and for what a developer's build has left out (GPUCOLL_KERNEL_SUBSET, see kernel_list.h).
core::CollectiveKernels reduction_kernels(proto::DataType type, proto::RedOp op) noexcept;
// Returns whether the operation has a meaning for the type: if it has, but no kernel, this build has left the kernel
// out.
bool has_meaning(proto::DataType type, proto::RedOp op) noexcept;
// Return the kernels that only move data. The one for connections is missing, since that of any reduction does as well;
// move_kernel() is the one to take where there is no reduction.
core::CollectiveKernels moving_kernels() noexcept;
const gpu::Kernel* move_kernel() noexcept;
// The kernel that packs and unpacks elements with gaps (proto/format/packing.h).
const gpu::Kernel* packing_kernel() noexcept;

// All of this build.
std::span<const gpu::Kernel> all_kernels() noexcept;

}  // namespace gpucoll::coll
