// Memory of other processes that one GPU of this process has opened.
//
// CUDA refuses to open a handle twice in one context, and closing it ends all uses of the mapping; so each handle is
// opened once and counted.
// Thread safety: every function may be called from any thread; the caller has made the GPU's context current.
// Ownership: whoever opens closes. Invariant: entries have different handles and do not overlap.
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <mutex>
#include <vector>

#include "base/status.h"

namespace gpucoll::gpu::cuda {

class Imports {
 public:
  // The start of the peer's allocation of `bytes` bytes in this process.
  Result<void*> open(const cudaIpcMemHandle_t& handle, size_t bytes, int device, int pid);
  // `address`: anywhere in an opened allocation; others are not ours and nothing happens.
  void close(const void* address) noexcept;

 private:
  struct Entry {
    cudaIpcMemHandle_t handle;
    char* base;
    size_t bytes;
    int uses;
  };

  std::mutex mutex_;
  std::vector<Entry> entries_;
};

}  // namespace gpucoll::gpu::cuda
