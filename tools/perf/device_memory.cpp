#include "perf/device_memory.h"

#include <gpucoll/gpucoll.h>

namespace gpucoll::perf {

Status from_api(int result, const char* call) {
  if (result == gpucollSuccess) return {};
  const char* sentence = gpucollGetLastError(nullptr);
  if (!*sentence) sentence = gpucollGetErrorString(static_cast<gpucollResult_t>(result));
  return Status::error(static_cast<Code>(result), "%s: %s", call, sentence);
}

Result<DeviceMemory> DeviceMemory::create(size_t bytes) {
  void* address = nullptr;
  GC_TRY(from_api(gpucollMalloc(&address, bytes), "gpucollMalloc"));
  return DeviceMemory(address);
}

DeviceMemory::~DeviceMemory() {
  if (address_) from_api(gpucollFree(address_), "gpucollFree").ignore();
}

Status copy(void* dst, const void* src, size_t bytes) {
  if (bytes == 0) return {};
  return from_api(gpucollMemcpy(dst, src, bytes), "gpucollMemcpy");
}

Status fill(void* dst, int byte, size_t bytes) {
  if (bytes == 0) return {};
  return from_api(gpucollMemset(dst, byte, bytes), "gpucollMemset");
}

}  // namespace gpucoll::perf
