#include "perf/memory.h"

#include <gpucoll/gpucoll.h>

#include <cstdlib>
#include <cstring>

#include "perf/cuda_driver.h"

namespace gpucoll::perf {
namespace {

constexpr const char* kNames[] = {"device", "host", "pinned"};

constexpr size_t kPage = 4096;

}  // namespace

const char* name(MemoryKind kind) { return kNames[static_cast<int>(kind)]; }

bool find_memory_kind(const std::string& name, MemoryKind* kind) {
  for (const MemoryKind each : {MemoryKind::device, MemoryKind::host, MemoryKind::pinned}) {
    if (name != kNames[static_cast<int>(each)]) continue;
    *kind = each;
    return true;
  }
  return false;
}

Status from_api(int result, const char* call) {
  if (result == gpucollSuccess) return {};
  const char* sentence = gpucollGetLastError(nullptr);
  if (!*sentence) sentence = gpucollGetErrorString(static_cast<gpucollResult_t>(result));
  return Status::error(static_cast<Code>(result), "%s: %s", call, sentence);
}

Result<Memory> Memory::create(size_t bytes, MemoryKind kind, int gpu) {
  if (kind == MemoryKind::device) return create_device(bytes);
  if (kind == MemoryKind::pinned && gpu >= 0) return create_pinned(bytes, gpu);
  void* address = nullptr;
  if (posix_memalign(&address, kPage, bytes) != 0)
    return Status::error(Code::out_of_memory, "there are no %zu bytes of host memory: take a smaller -e", bytes);
  return Memory(kind, address, [](void* memory) { return std::free(memory), 0; });
}

Result<Memory> Memory::create_device(size_t bytes) {
  void* address = nullptr;
  GC_TRY(from_api(gpucollMalloc(&address, bytes), "gpucollMalloc"));
  return Memory(MemoryKind::device, address, [](void* memory) { return static_cast<int>(gpucollFree(memory)); });
}

Result<Memory> Memory::create_pinned(size_t bytes, int gpu) {
  constexpr const char* kWho = "page-locked memory";
  constexpr unsigned kPortable = 1;
  GC_TRY_AS(void* driver, open_cuda_driver(gpu, kWho));
  int (*allocate)(void**, size_t, unsigned);
  int (*release)(void*);
  GC_TRY(find_in_driver(driver, "cuMemHostAlloc", kWho, &allocate));
  GC_TRY(find_in_driver(driver, "cuMemFreeHost", kWho, &release));
  void* address = nullptr;
  GC_TRY(check_cuda(allocate(&address, bytes, kPortable), kWho, "cuMemHostAlloc"));
  return Memory(MemoryKind::pinned, address, release);
}

Memory::~Memory() {
  if (address_) release_(address_);
}

Status Memory::write(size_t offset, const void* from, size_t bytes) const {
  if (bytes == 0) return {};
  if (kind_ == MemoryKind::device) return from_api(gpucollMemcpy(at(offset), from, bytes), "gpucollMemcpy");
  std::memcpy(at(offset), from, bytes);
  return {};
}

Status Memory::read(size_t offset, void* to, size_t bytes) const {
  if (bytes == 0) return {};
  if (kind_ == MemoryKind::device) return from_api(gpucollMemcpy(to, at(offset), bytes), "gpucollMemcpy");
  std::memcpy(to, at(offset), bytes);
  return {};
}

Status Memory::fill(size_t offset, int byte, size_t bytes) const {
  if (bytes == 0) return {};
  if (kind_ == MemoryKind::device) return from_api(gpucollMemset(at(offset), byte, bytes), "gpucollMemset");
  std::memset(at(offset), byte, bytes);
  return {};
}

}  // namespace gpucoll::perf
