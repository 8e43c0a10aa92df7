// From calls to tasks: what a program asks for is checked against the rules of gpucoll.h and becomes a task of core.
//
// Errors are invalid_argument, with a sentence that names the argument of the function that was called: no such type,
// operation, root or peer; an operation that has no meaning for the type; a count larger than any memory; memory that
// is no device memory or of another device; a buffer that is too short, misaligned, or overlaps another. Thread safety:
// as the communicator's.
#pragma once
#include <cstddef>

#include "base/status.h"
#include "core/peer/call_records.h"
#include "core/plan/task.h"
#include "gpucoll/gpucoll.h"
#include "proto/reduction.h"
#include "task/reduction_op.h"

namespace gpucoll::coll {

// Returns whether the function combines elements by an operation.
bool reduces(proto::Function function) noexcept;
// Returns whether op has a meaning for the type. Not for operations that programs make.
bool has_reduction(gpucollDataType_t type, gpucollRedOp_t op) noexcept;
bool has_pre_mul_sum(gpucollDataType_t type) noexcept;
// Why there is no kernel for `what` of that type. Errors: invalid_argument, or unsupported where this build has left it
// out.
Status no_kernel(const char* what, gpucollDataType_t type, proto::RedOp op);

// The rank that calls.
struct Caller {
  const gpu::Device& device;
  int rank, n_ranks;
  const ReductionOps* red_ops;  // null: no operations but the built-in ones
};

struct CollectiveCall {
  proto::Function function;
  const void* send;  // user addresses
  void* recv;
  size_t count;
  gpucollDataType_t type;
  gpucollRedOp_t op;  // of the functions that reduce
  int root;           // of reduce and broadcast
  gpucollStream_t stream;
  // The arguments' names.
  const char* send_name = "sendbuff";
  const char* recv_name = "recvbuff";
  const char* count_name = "count";
  bool in_usable_memory = false;  // the buffers, as far as they go: known
};
Result<core::CollectiveTask> make_task(const Caller& caller, const CollectiveCall& call);
// Returns the part of a call that must be equal on all ranks. Of operations that programs make, it says only that they
// are such.
core::Call named(const CollectiveCall& call);

// Returns a task of a function that only moves, with its kernels; the caller fills in the rest.
core::CollectiveTask moving_task(proto::Function function);
// An allreduce of one element at `scratch` (kernel address, kBarrierBytes): nobody's is done before all have
// contributed. Errors: unsupported, where this build has left the kernel out.
inline constexpr size_t kBarrierBytes = 16;
Result<core::CollectiveTask> barrier_task(void* scratch, gpucollStream_t stream);

// A send or a receive; `name` is the buffer's.
struct PairCall {
  const char* name;
  const void* buffer;
  size_t count;
  gpucollDataType_t type;
  int peer;
  gpucollStream_t stream;
};
Result<core::SendRecvTask> make_task(const Caller& caller, const PairCall& call);

// Errors: invalid_argument, where it is none of the ranks. `name`: root or peer.
Status check_rank(const Caller& caller, const char* name, int rank);
Status check_type(gpucollDataType_t type);

}  // namespace gpucoll::coll
