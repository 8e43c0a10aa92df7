#include "task/buffer_check.h"

#include <algorithm>

#include "base/observe/causes.h"
#include "task/types.h"

namespace gpucoll::coll {

Result<size_t> bytes_of(const char* count_name, size_t count, gpucollDataType_t type, size_t times) {
  size_t bytes = 0;
  if (__builtin_mul_overflow(count, type_size(type), &bytes) || __builtin_mul_overflow(bytes, times, &bytes))
    return Status::error(Code::invalid_argument, "%s %zu is too large: no memory has so many elements", count_name,
                         count);
  return bytes;
}

Status check_place(const char* name, const void* buffer, size_t bytes, gpucollDataType_t type) {
  if (bytes == 0) return {};
  if (!buffer) return Status::error(Code::invalid_argument, "%s is NULL", name);
  if (reinterpret_cast<uintptr_t>(buffer) % type_alignment(type))
    return Status::error(Code::invalid_argument, "%s %p is not aligned to the %zu bytes that its type needs", name,
                         buffer, type_alignment(type))
        .because(Cause::misaligned);
  return {};
}

Status check_buffer(const gpu::Device& device, const char* name, const void* buffer, size_t bytes,
                    gpucollDataType_t type) {
  GC_TRY(check_place(name, buffer, bytes, type));
  if (bytes == 0) return {};
  GC_TRY_AS(gpu::Platform * platform, gpu::platform());
  const gpu::PointerInfo info = platform->classify(buffer);
  if (info.kind == gpu::MemoryKind::host)
    return Status::error(Code::invalid_argument,
                         "%s %p is host memory: it must be device memory (gpucollMalloc, cudaMalloc)", name, buffer);
  const bool on_device = info.kind == gpu::MemoryKind::device;
  if (on_device && info.device < 0)
    return Status::error(Code::invalid_argument, "%s %p is in no allocation: it was freed before, or never allocated",
                         name, buffer);
  if (on_device && info.device != device.index())
    return Status::error(Code::invalid_argument, "%s %p lies on device %d, but the communicator works on device %d",
                         name, buffer, info.device, device.index());
  const auto offset = static_cast<size_t>(static_cast<const char*>(buffer) - static_cast<const char*>(info.base));
  if (on_device && info.bytes && bytes > info.bytes - offset)
    return Status::error(Code::invalid_argument,
                         "%s %p: %zu bytes are needed from there, but its allocation ends after %zu", name, buffer,
                         bytes, info.bytes - offset);
  return {};
}

bool overlap(std::vector<Range> ranges) {
  std::erase_if(ranges, [](const Range& r) { return r.begin == r.end; });
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  uintptr_t read_end = 0, written_end = 0;  // of the ranges that begin before
  for (const Range& r : ranges) {
    if (r.begin < written_end || (r.written && r.begin < read_end)) return true;
    uintptr_t& end = r.written ? written_end : read_end;
    end = std::max(end, r.end);
  }
  return false;
}

}  // namespace gpucoll::coll
