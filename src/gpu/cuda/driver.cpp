#include "gpu/cuda/driver.h"

#include <dlfcn.h>

#include <string>

namespace gpucoll::gpu::cuda {
namespace {

// The name of a function as the header's macros spell it for this version of the interface (cuX -> cuX_v2).
#define GC_SYMBOL_(name) #name
#define GC_SYMBOL(name) GC_SYMBOL_(name)

struct Loaded {
  Driver table{};
  std::string problem;

  Loaded() {
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      const char* why = dlerror();
      problem = std::string("there is no CUDA driver (") + (why ? why : "libcuda.so.1 cannot be loaded") + ")";
      return;
    }
    find(library, table.init, GC_SYMBOL(cuInit));
    find(library, table.error_string, GC_SYMBOL(cuGetErrorString));
    find(library, table.get_current, GC_SYMBOL(cuCtxGetCurrent));
    find(library, table.set_current, GC_SYMBOL(cuCtxSetCurrent));
    find(library, table.current_device, GC_SYMBOL(cuCtxGetDevice));
    find(library, table.retain_primary, GC_SYMBOL(cuDevicePrimaryCtxRetain));
    find(library, table.device_attribute, GC_SYMBOL(cuDeviceGetAttribute));
    find(library, table.pointer_attributes, GC_SYMBOL(cuPointerGetAttributes));
    find(library, table.set_pointer_attribute, GC_SYMBOL(cuPointerSetAttribute));
    find(library, table.address_range, GC_SYMBOL(cuMemGetAddressRange));
    find(library, table.stream_context, GC_SYMBOL(cuStreamGetCtx));
    find(library, table.write_value, GC_SYMBOL(cuStreamWriteValue64));
    find(library, table.wait_value, GC_SYMBOL(cuStreamWaitValue64));
    find(library, table.launch_kernel, GC_SYMBOL(cuLaunchKernelEx));
  }

  template <class Function>
  void find(void* library, Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    if (function == nullptr) problem = std::string("the CUDA driver has no ") + name + "; it is too old";
  }
};

Code code_of(cudaError_t error) {
  if (error == cudaErrorMemoryAllocation) return Code::out_of_memory;
  const bool capture = error >= cudaErrorStreamCaptureUnsupported && error <= cudaErrorStreamCaptureWrongThread;
  return capture ? Code::invalid_usage : Code::device;
}

const Loaded& loaded() noexcept {
  static const Loaded* const it = new Loaded;  // never destroyed: asked about pointers until the very end
  return *it;
}

}  // namespace

const Driver* driver() noexcept { return loaded().problem.empty() ? &loaded().table : nullptr; }

const char* driver_problem() noexcept { return loaded().problem.c_str(); }

Status failure(cudaError_t error, int device, const char* call) {
  cudaGetLastError();  // ours is reported here; the next call must not find it again
  return Status::error(code_of(error), "%s failed on GPU %d: %s (%s)", call, device, cudaGetErrorString(error),
                       cudaGetErrorName(error));
}

Status failure(CUresult error, int device, const char* call) {
  const char* text = nullptr;
  if (driver() == nullptr || driver()->error_string(error, &text) != CUDA_SUCCESS || text == nullptr) text = "unknown";
  const Code code = error == CUDA_ERROR_OUT_OF_MEMORY ? Code::out_of_memory : Code::device;
  return Status::error(code, "%s failed on GPU %d: %s (%d)", call, device, text, static_cast<int>(error));
}

Current::Current(CUcontext context) noexcept {
  if (driver()->get_current(&before_) != CUDA_SUCCESS) before_ = nullptr;
  changed_ = before_ != context && driver()->set_current(context) == CUDA_SUCCESS;
}

Current::~Current() {
  if (changed_) driver()->set_current(before_);
}

}  // namespace gpucoll::gpu::cuda
