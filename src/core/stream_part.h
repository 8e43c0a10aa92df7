// What a group does on its stream besides launching kernels: its beginning goes before the launches, its end behind.
//
// Thread safety: one caller at a time, between begin() of whoever implements it and the launches.
#pragma once
#include "base/status.h"
#include "gpu/device.h"

namespace gpucoll::core {

class StreamPart {
 public:
  virtual ~StreamPart() = default;
  virtual Status put_ready(gpu::Stream stream) = 0;
  virtual Status put_waits(gpu::Stream stream) = 0;
};

}  // namespace gpucoll::core
