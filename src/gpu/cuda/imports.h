// Memory of other processes that one GPU of this process has opened.
//
// CUDA refuses to open a handle twice in one context, and closing it ends all uses of the mapping; so each handle is
// opened once and counted. Memory that its owner has allocated anew may have an old handle: the buffer id tells.
// Thread safety: every function may be called from any thread; the caller has made the GPU's context current.
// Ownership: whoever opens closes. Invariant: entries have different handles and do not overlap.
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "base/status.h"
#include "gpu/cuda/handle.h"

namespace gpucoll::gpu::cuda {

class Imports {
 public:
  // The start of the peer's allocation in this process.
  Result<void*> open(const CudaHandle& handle, int device);
  // `address`: anywhere in an opened allocation; others are not ours and nothing happens.
  void close(const void* address) noexcept;

 private:
  struct Entry {
    cudaIpcMemHandle_t handle;
    uint64_t buffer_id;
    char* base;
    size_t bytes;
    int uses;
  };

  std::mutex mutex_;
  std::vector<Entry> entries_;
};

}  // namespace gpucoll::gpu::cuda
