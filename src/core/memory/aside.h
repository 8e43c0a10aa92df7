// Device memory where a communicator's launches put aside what later launches of the same group read.
//
// It needs no more order than that of the communicator's launches: a group that puts something aside runs when those
// before it have ended, whatever streams they use, and in graphs as well.
// Thread safety: one caller at a time. Ownership: owns its memory, which grows; the device outlives it. Destroy it
// where no launch uses it any more.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"
#include "gpu/device.h"

namespace gpucoll::core {

class Aside {
 public:
  // Makes sure that there are at least so many bytes. in_graphs: graphs may have launches that use what was there
  // before. REQUIRES: what else uses that has been launched. Errors: no memory.
  Status reserve(gpu::Device& device, size_t bytes, bool in_graphs);
  // Returns the kernel address; null before the first reserve().
  uint8_t* memory() const noexcept { return static_cast<uint8_t*>(memory_.get()); }

 private:
  std::shared_ptr<void> memory_;  // shared, since what has become too small ends when nothing is in flight
  size_t bytes_ = 0;
  std::vector<std::shared_ptr<void>> in_graphs_;  // was too small for later calls
};

}  // namespace gpucoll::core
