#include "gpu/cuda/imports.h"

#include <cstdio>
#include <cstring>

#include "gpu/cuda/driver.h"

namespace gpucoll::gpu::cuda {

Result<void*> Imports::open(const CudaHandle& handle, int device) {
  std::lock_guard lock(mutex_);
  for (Entry& entry : entries_) {
    if (entry.buffer_id != handle.buffer_id || std::memcmp(&entry.handle, &handle.ipc, sizeof handle.ipc) != 0)
      continue;
    ++entry.uses;
    return static_cast<void*>(entry.base);
  }
  void* base = nullptr;
  const cudaError_t error = cudaIpcOpenMemHandle(&base, handle.ipc, cudaIpcMemLazyEnablePeerAccess);
  if (error != cudaSuccess) {
    char call[160];
    std::snprintf(call, sizeof call,
                  "cudaIpcOpenMemHandle of memory of process %d (it must be alive, and in containers share the IPC "
                  "namespace; the parameter transport=shm does without)",
                  handle.pid);
    return failure(error, device, call);
  }
  entries_.push_back({handle.ipc, handle.buffer_id, static_cast<char*>(base), handle.bytes, 1});
  return base;
}

void Imports::close(const void* address) noexcept {
  std::lock_guard lock(mutex_);
  for (size_t i = 0; i < entries_.size(); ++i) {
    Entry& entry = entries_[i];
    if (static_cast<const char*>(address) < entry.base || static_cast<const char*>(address) >= entry.base + entry.bytes)
      continue;
    if (--entry.uses > 0) return;
    // A failure means that the driver is shutting down: nothing is left to close then.
    if (cudaIpcCloseMemHandle(entry.base) != cudaSuccess) cudaGetLastError();
    entries_[i] = entries_.back();
    entries_.pop_back();
    return;
  }
}

}  // namespace gpucoll::gpu::cuda
