// One kernel that works on memory of this process alone, on a stream of this library.
//
// Thread safety: any thread.
#pragma once
#include "base/status.h"
#include "gpu/device.h"

namespace gpucoll::coll {

// Waits until it is done.
Status launch_and_wait(gpu::Device& device, const gpu::Kernel& kernel, const proto::Plan& plan, int blocks);

}  // namespace gpucoll::coll
