// What a group does on its stream besides launching kernels: its beginning goes before the launches, its end behind,
// and what belongs to steps between them (step_messages.h).
//
// Thread safety: one caller at a time, between begin() of whoever implements it and the launches.
#pragma once
#include "base/status.h"
#include "gpu/device.h"

namespace gpucoll::core {

class StreamPart {
 public:
  virtual ~StreamPart() = default;
  // Steps in ascending order, from 0 on, which every group has.
  virtual Status put_ready(gpu::Stream stream, uint32_t step) = 0;
  virtual Status put_waits(gpu::Stream stream, uint32_t step) = 0;
  // Also after a failure, if anything has been put.
  virtual Status put_end(gpu::Stream stream) = 0;
};

}  // namespace gpucoll::core
