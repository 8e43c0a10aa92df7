// The kernels of the collectives: which one serves a data type and an operation by an algorithm.
//
// Thread safety: constant data. Types whose signedness makes no difference to an operation share a kernel.
#pragma once
#include "core/tuner.h"
#include "gpu/device.h"
#include "proto/reduction.h"

namespace gpucoll::coll {

using core::Algorithm;

// Null where the operation has no meaning for the type, for values that are none of the enumerators, and for what a
// developer's build has left out (GPUCOLL_KERNEL_SUBSET, see kernel_list.h): for all algorithms alike.
const gpu::Kernel* all_reduce_kernel(proto::DataType type, proto::RedOp op,
                                     Algorithm algorithm = Algorithm::ring) noexcept;

// How many different kernels there are, and the i-th of them: for tests and for preparing all of them.
int all_reduce_kernel_count() noexcept;
const gpu::Kernel* all_reduce_kernel_at(int i) noexcept;

}  // namespace gpucoll::coll
