// Checks of the buffers that a call names. Thread safety: pure functions.
#pragma once
#include <cstddef>
#include <vector>

#include "base/status.h"
#include "gpu/device.h"
#include "gpucoll/gpucoll.h"

namespace gpucoll::coll {

// `count` elements times `times`, in bytes. Errors: invalid_argument with the name of the argument.
Result<size_t> bytes_of(const char* count_name, size_t count, gpucollDataType_t type, size_t times = 1);

// Not NULL, and aligned to its type. Anything will do for 0 bytes. `name`: the function's argument.
Status check_place(const char* name, const void* buffer, size_t bytes, gpucollDataType_t type);

// And device memory of `device` with room for `bytes`, or memory of another kind that kernels can use.
Status check_buffer(const gpu::Device& device, const char* name, const void* buffer, size_t bytes,
                    gpucollDataType_t type);

// A range of user memory, and whether the call writes it.
struct Range {
  uintptr_t begin, end;
  bool written;
};
inline Range range_of(const void* buffer, size_t bytes, bool written) {
  const auto begin = reinterpret_cast<uintptr_t>(buffer);
  return {begin, begin + bytes, written};
}
// Returns whether any two ranges overlap, at least one of which is written.
bool overlap(std::vector<Range> ranges);

}  // namespace gpucoll::coll
