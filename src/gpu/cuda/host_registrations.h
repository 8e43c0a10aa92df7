// Host memory that the GPUs of this process may use. CUDA refuses to register a range twice, but ranks of one process
// share what they map (SharedMemory): so each range is registered once, for all GPUs, and counted. Unregistering may
// wait for kernels, which may wait for a rank that registers: only calls for the same range wait for each other.
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
  struct Range {
    std::mutex mutex;
    int uses = 0;
  };
  Range& range(void* host);

  std::mutex mutex_;
  std::map<void*, Range> ranges_;  // only ever more: addresses come again
};

}  // namespace gpucoll::gpu::cuda
