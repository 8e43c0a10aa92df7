// Allreduce: checks a call and turns it into a task. Thread safety: as the communicator's.
#pragma once
#include <cstddef>

#include "base/status.h"
#include "core/planner.h"
#include "gpucoll/gpucoll.h"

namespace gpucoll::coll {

size_t type_size(gpucollDataType_t type) noexcept;       // bytes; 0 for what is no type
const char* type_name(gpucollDataType_t type) noexcept;  // "float32"
const char* op_name(gpucollRedOp_t op) noexcept;         // "sum"
// Whether op has a meaning for the type.
bool has_reduction(gpucollDataType_t type, gpucollRedOp_t op) noexcept;

struct AllReduceCall {
  const void* send;  // user addresses; equal: in place
  void* recv;
  size_t count;
  gpucollDataType_t type;
  gpucollRedOp_t op;
  gpu::Stream stream;
};

// A task for a communicator on `device`. Errors: invalid_argument, with a sentence that names the argument: no such
// type or operation, an operation that has no meaning for the type, memory that is no device memory or of another
// device, a buffer that is too short, buffers that overlap without being the same.
Result<core::Task> make_task(const gpu::Device& device, const AllReduceCall& call);

}  // namespace gpucoll::coll
