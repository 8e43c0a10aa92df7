// The CUDA driver, loaded at run time: gpucoll loads and runs on machines without one.
//
// Only what the runtime library (linked statically) does not offer is taken from here: the current context, what a
// pointer is, words in memory as signals between streams, and launches with fewer bytes of arguments than the kernel
// has. Loading the library initialises nothing and touches no
// GPU. Thread safety: every function may be called from any thread. Ownership: the library stays loaded.
#pragma once
#include <cuda.h>
#include <cuda_runtime_api.h>

#include "base/status.h"

namespace gpucoll::gpu::cuda {

struct Driver {
  decltype(&cuInit) init;
  decltype(&cuGetErrorString) error_string;
  decltype(&cuCtxGetCurrent) get_current;
  decltype(&cuCtxSetCurrent) set_current;
  decltype(&cuCtxGetDevice) current_device;
  decltype(&cuDevicePrimaryCtxRetain) retain_primary;
  decltype(&cuDeviceGetAttribute) device_attribute;
  decltype(&cuPointerGetAttributes) pointer_attributes;
  decltype(&cuPointerSetAttribute) set_pointer_attribute;
  decltype(&cuMemGetAddressRange) address_range;
  decltype(&cuStreamGetCtx) stream_context;
  decltype(&cuStreamWriteValue64) write_value;
  decltype(&cuStreamWaitValue64) wait_value;
  decltype(&cuLaunchKernelEx) launch_kernel;
};

// Null where there is no driver, or one without the functions above; driver_problem() says which.
const Driver* driver() noexcept;
const char* driver_problem() noexcept;

// A failed call as a sentence: `call` names it and what it was given. The runtime's error state is cleared.
Status failure(cudaError_t error, int device, const char* call);
Status failure(CUresult error, int device, const char* call);

// Makes the context of a device current on this thread for as long as the object lives; afterwards the thread has
// the context it had before, or none. The runtime library works on the current context.
class Current {
 public:
  explicit Current(CUcontext context) noexcept;
  ~Current();
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  CUcontext before_ = nullptr;
  bool changed_ = false;
};

// Makes the context current, too, for calls that a capture of any stream could forbid to this thread because they
// synchronise or allocate. That does no harm to work which is only being recorded.
class Unrestricted {
 public:
  explicit Unrestricted(CUcontext context) noexcept : current_(context) { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~Unrestricted() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  Unrestricted(const Unrestricted&) = delete;
  Unrestricted& operator=(const Unrestricted&) = delete;

 private:
  const Current current_;
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;  // then the mode that the thread had before
};

}  // namespace gpucoll::gpu::cuda

// GC_CUDA(device, cudaFree(p)): returns the failure as a Status.
#define GC_CUDA(device, ...)                                             \
  do {                                                                   \
    if (auto gc_e_ = (__VA_ARGS__); static_cast<int>(gc_e_) != 0)        \
      return ::gpucoll::gpu::cuda::failure(gc_e_, device, #__VA_ARGS__); \
  } while (0)
