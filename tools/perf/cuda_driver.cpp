#include "perf/cuda_driver.h"

namespace gpucoll::perf {

Status check_cuda(int result, const char* who, const char* call) {
  return result == 0 ? Status() : Status::error(Code::device, "%s: %s failed with %d", who, call, result);
}

Result<void*> open_cuda_driver(int gpu, const char* who) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) return Status::error(Code::unsupported, "%s needs the CUDA driver (%s)", who, dlerror());
  int (*get_device)(int*, int);
  int (*retain_context)(void**, int);
  int (*set_context)(void*);
  GC_TRY(find_in_driver(library, "cuDeviceGet", who, &get_device));
  GC_TRY(find_in_driver(library, "cuDevicePrimaryCtxRetain", who, &retain_context));
  GC_TRY(find_in_driver(library, "cuCtxSetCurrent", who, &set_context));
  int device = 0;
  void* context = nullptr;
  GC_TRY(check_cuda(get_device(&device, gpu), who, "cuDeviceGet"));
  GC_TRY(check_cuda(retain_context(&context, device), who, "cuDevicePrimaryCtxRetain"));
  GC_TRY(check_cuda(set_context(context), who, "cuCtxSetCurrent"));
  return library;
}

}  // namespace gpucoll::perf
