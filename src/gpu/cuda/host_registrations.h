// Host memory that the GPUs of this process may use. CUDA refuses to register a range twice, but ranks of one process
// share what they map (SharedMemory): so each range is registered once, for all GPUs, and counted.
//
// Thread safety: every function may be called from any thread; the caller has made a GPU's context current.
// Ownership: whoever adds removes. Invariant: ranges do not overlap; one is always given with the same size.
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <map>
#include <mutex>

namespace gpucoll::gpu::cuda {

class HostRegistrations {
 public:
  static HostRegistrations& instance();
  // The address for kernels.
  cudaError_t add(void* host, size_t bytes, void** kernel_address);
  void remove(void* host) noexcept;

 private:
  std::mutex mutex_;
  std::map<void*, int> uses_;
};

}  // namespace gpucoll::gpu::cuda
