#include "gpu/cuda/host_registrations.h"

namespace gpucoll::gpu::cuda {

HostRegistrations& HostRegistrations::instance() {
  // Never destroyed: communicators may be retired while the process's statics are torn down.
  static HostRegistrations* registrations = new HostRegistrations;
  return *registrations;
}

HostRegistrations::Range& HostRegistrations::range(void* host) {
  std::lock_guard lock(mutex_);
  return ranges_[host];
}

cudaError_t HostRegistrations::add(void* host, size_t bytes, void** kernel_address) {
  Range& r = range(host);
  std::lock_guard lock(r.mutex);
  if (r.uses == 0) {
    const cudaError_t error = cudaHostRegister(host, bytes, cudaHostRegisterPortable | cudaHostRegisterMapped);
    if (error != cudaSuccess) return error;
  }
  const cudaError_t error = cudaHostGetDevicePointer(kernel_address, host, 0);
  if (error == cudaSuccess)
    ++r.uses;
  else if (r.uses == 0)
    cudaHostUnregister(host);
  return error;
}

void HostRegistrations::remove(void* host) noexcept {
  if (host == nullptr) return;
  Range& r = range(host);
  std::lock_guard lock(r.mutex);
  if (r.uses == 0 || --r.uses > 0) return;
  if (cudaHostUnregister(host) != cudaSuccess) cudaGetLastError();  // the driver is shutting down
}

}  // namespace gpucoll::gpu::cuda
