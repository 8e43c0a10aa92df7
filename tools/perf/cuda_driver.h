// The CUDA driver without its header: its functions are found by name, when something needs them.
//
// Thread safety: none. The library and the GPU's primary context stay until the process ends.
#pragma once
#include "base/status.h"
#include "perf/find_function.h"

namespace gpucoll::perf {

// The driver's library; the GPU's primary context becomes that of the calling thread. `who` begins the sentences.
// Errors: unsupported where there is no driver.
Result<void*> open_cuda_driver(int gpu, const char* who);

// Functions answer 0 where all is well. Errors: device.
Status check_cuda(int result, const char* who, const char* call);

// Errors: unsupported where the driver is older than the function.
template <class F>
Status find_in_driver(void* library, const char* symbol, const char* who, F* function) {
  if (find_function(library, symbol, function)) return {};
  return Status::error(Code::unsupported, "%s needs a newer CUDA driver: this one has no %s", who, symbol);
}

}  // namespace gpucoll::perf
