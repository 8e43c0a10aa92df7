// MPI_Reduce_local on a device: inout[i] = in[i] op inout[i].
//
// Thread safety: any thread.
#pragma once
#include <cstddef>

#include "base/status.h"
#include "gpu/device.h"
#include "gpucoll/gpucoll.h"

namespace gpucoll::coll {

// Waits until it is done. False, and nothing is done, where a kernel of this device cannot: there is none for the type
// and operation, or it would not see both buffers (user addresses).
Result<bool> reduce_local(gpu::Device& device, const void* in, void* inout, size_t count, gpucollDataType_t type,
                          gpucollRedOp_t op);

}  // namespace gpucoll::coll
