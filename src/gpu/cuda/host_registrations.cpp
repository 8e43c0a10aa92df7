#include "gpu/cuda/host_registrations.h"

namespace gpucoll::gpu::cuda {

HostRegistrations& HostRegistrations::instance() {
  // Never destroyed: communicators may be retired while the process's statics are torn down.
  static HostRegistrations* registrations = new HostRegistrations;
  return *registrations;
}

cudaError_t HostRegistrations::add(void* host, size_t bytes, void** kernel_address) {
  std::lock_guard lock(mutex_);
  const bool first = !uses_.contains(host);
  if (first) {
    const cudaError_t error = cudaHostRegister(host, bytes, cudaHostRegisterPortable | cudaHostRegisterMapped);
    if (error != cudaSuccess) return error;
  }
  const cudaError_t error = cudaHostGetDevicePointer(kernel_address, host, 0);
  if (error == cudaSuccess)
    ++uses_[host];
  else if (first)
    cudaHostUnregister(host);
  return error;
}

void HostRegistrations::remove(void* host) noexcept {
  std::lock_guard lock(mutex_);
  const auto it = uses_.find(host);
  if (it == uses_.end() || --it->second > 0) return;
  uses_.erase(it);
  if (cudaHostUnregister(host) != cudaSuccess) cudaGetLastError();  // the driver is shutting down
}

}  // namespace gpucoll::gpu::cuda
