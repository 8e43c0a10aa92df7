// Copies many short runs of data between device memory and host memory that has the same layout: by one packing kernel
// and page-locked memory in between, not by a copy for each.
//
// Thread safety: any thread.
#pragma once
#include <cstddef>

#include "abi/abi.h"
#include "base/status.h"
#include "gpu/device.h"

namespace gpucoll::coll {

// The runs' offsets count from `on_device` (a user address) as well as from `host`. Waits until it is done.
Status copy_strided(gpu::Device& device, void* host, void* on_device, const gc_runs* runs, size_t n, bool to_device);

}  // namespace gpucoll::coll
