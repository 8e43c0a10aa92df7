// The content of a MemoryHandle of a GPU. The process that owns the memory writes it; processes of the same library
// version on the same node read it (the engine compares versions before handles travel).
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "gpu/device.h"

namespace gpucoll::gpu::cuda {

struct CudaHandle {
  uint64_t process_id;  // this_process() of the owner
  uint64_t address;     // in the owner
  uint64_t offset;      // of the address in its allocation
  uint64_t buffer_id;   // of the allocation
  size_t bytes;         // of the allocation
  int32_t pid;
  int32_t device;  // index in the owner
  cudaIpcMemHandle_t ipc;

  MemoryHandle pack() const {
    MemoryHandle handle{};
    std::memcpy(handle.bytes, this, sizeof *this);
    return handle;
  }
  static CudaHandle unpack(const MemoryHandle& handle) {
    CudaHandle mine;
    std::memcpy(&mine, handle.bytes, sizeof mine);
    return mine;
  }
};
static_assert(sizeof(CudaHandle) <= sizeof(MemoryHandle));
static_assert(sizeof(size_t) == 8);

// Random: tells this process from all others, also from one that had its number before.
uint64_t this_process() noexcept;

}  // namespace gpucoll::gpu::cuda
