// Device memory for results and inputs that MPI_IN_PLACE wants where others still are.
//
// Thread safety: one caller at a time. Ownership: owns its memory, which grows and is kept.
#pragma once
#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "gpu/device.h"

namespace gpucoll::coll {

class Scratch {
 public:
  Scratch() = default;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { release(); }
  // Kernel address of at least so many bytes; what was there before is lost. REQUIRES: no kernel uses it any more.
  Result<uint8_t*> get(gpu::Device& device, size_t bytes);
  void release() noexcept;
  // Keeps only what is soon needed again, by whatever comes next: not the much that one large call has asked for.
  void release_much() noexcept {
    if (bytes_ > kMuch) release();
  }
  static constexpr size_t kMuch = size_t{64} << 20;

 private:
  gpu::Device* device_ = nullptr;
  uint8_t* memory_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace gpucoll::coll
