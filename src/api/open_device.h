// The device of a new communicator.
#pragma once
#include <optional>

#include "base/params.h"
#include "base/status.h"
#include "gpu/device.h"

namespace gpucoll::coll {

// Opens the device of that index, or the calling thread's where there is none. Errors: the parameters' and platform's.
inline Result<gpu::Device*> open_device(std::optional<int> index) {
  GC_TRY(params_status());
  GC_TRY_AS(gpu::Platform * platform, gpu::platform());
  return platform->open(index ? *index : platform->current_device());
}

}  // namespace gpucoll::coll
