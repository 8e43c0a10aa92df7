#include "task/collective_task.h"

#include <string>

#include "base/mutant.h"
#include "base/observe/causes.h"
#include "kernels/kernels.h"
#include "task/buffer_check.h"
#include "task/types.h"

namespace gpucoll::coll {
namespace {

using proto::Function;

proto::DataType proto_type(gpucollDataType_t type) { return static_cast<proto::DataType>(type); }

bool has_root(Function function) { return function == Function::reduce || function == Function::broadcast; }

// How much of which buffer a call uses on this rank, and where one buffer stands in for the other.
struct Extent {
  size_t send_bytes, recv_bytes;
  size_t send_in_recv, recv_in_send;  // where one of them lies in the other when they are in place
};

Result<Extent> extent_of(const Caller& caller, const CollectiveCall& call) {
  const auto n = static_cast<size_t>(caller.n_ranks), rank = static_cast<size_t>(caller.rank);
  GC_TRY_AS(const size_t part, bytes_of(call.count_name, call.count, call.type));
  GC_TRY_AS(const size_t all, bytes_of(call.count_name, call.count, call.type, n));
  const bool at_root = caller.rank == call.root;
  switch (call.function) {
    case Function::all_gather: return Extent{part, all, rank * part, 0};
    case Function::reduce_scatter: return Extent{all, part, 0, rank * part};
    case Function::reduce: return Extent{part, at_root ? part : 0, 0, 0};
    case Function::broadcast: return Extent{at_root ? part : 0, part, 0, 0};
    case Function::exscan: return Extent{part, caller.rank > 0 ? part : 0, 0, 0};
    default: return Extent{part, part, 0, 0};
  }
}

Status check_one(const Caller& caller, const CollectiveCall& call, const char* name, const void* buffer, size_t bytes) {
  return call.in_usable_memory ? check_place(name, buffer, bytes, call.type)
                               : check_buffer(caller.device, name, buffer, bytes, call.type);
}

// Buffers that are in place are one inside the other: the larger one is looked at.
Status check_buffers(const Caller& caller, const CollectiveCall& call, const Extent& extent) {
  const auto send = reinterpret_cast<uintptr_t>(call.send), recv = reinterpret_cast<uintptr_t>(call.recv);
  const bool both = extent.send_bytes && extent.recv_bytes;
  const bool in_place = both && send + extent.recv_in_send == recv + extent.send_in_recv;
  if (!in_place || extent.send_bytes > extent.recv_bytes)
    GC_TRY(check_one(caller, call, call.send_name, call.send, extent.send_bytes));
  if (!in_place || extent.send_bytes <= extent.recv_bytes)
    GC_TRY(check_one(caller, call, call.recv_name, call.recv, extent.recv_bytes));
  if (in_place || !both || send >= recv + extent.recv_bytes || recv >= send + extent.send_bytes) return {};
  return Status::error(Code::invalid_argument, "%s %p and %s %p overlap without being in place", call.send_name,
                       call.send, call.recv_name, call.recv);
}

// The kernels and the argument of the reduction.
Status set_reduction(const Caller& caller, const CollectiveCall& call, core::CollectiveTask* task) {
  const int number = static_cast<int>(call.op);
  auto op = static_cast<proto::RedOp>(call.op);
  if (number < 0 || number >= gpucollNumOps) {
    const PreMulSum* made = caller.red_ops ? caller.red_ops->find(call.op) : nullptr;
    if (!made)
      return Status::error(Code::invalid_argument,
                           "op %d is no gpucollRedOp_t, nor was it made for this communicator (or it was destroyed)",
                           number);
    if (made->type != call.type)
      return Status::error(Code::invalid_argument, "op was made for the datatype %s, not for %s", type_name(made->type),
                           type_name(call.type));
    op = proto::RedOp::pre_mul_sum;
    task->argument = made->scalar.argument;
    task->argument_high = made->scalar.argument_high;
    task->scalar_in_memory = made->scalar.in_memory;
  }
  if (op == proto::RedOp::avg) task->argument = static_cast<uint64_t>(caller.n_ranks);
  task->kernels = reduction_kernels(proto_type(call.type), op);
  if (!task->kernels.plan) return no_kernel(("the op " + std::string(op_name(call.op))).c_str(), call.type, op);
  return {};
}

}  // namespace

bool reduces(Function function) noexcept {
  return function == Function::all_reduce || function == Function::reduce || function == Function::reduce_scatter ||
         function == Function::scan || function == Function::exscan;
}

Status no_kernel(const char* what, gpucollDataType_t type, proto::RedOp op) {
  if (!has_meaning(proto_type(type), op))
    return Status::error(Code::invalid_argument, "%s has no meaning for the datatype %s", what, type_name(type));
  return Status::error(Code::unsupported, "%s of the datatype %s is left out of this build (GPUCOLL_KERNEL_SUBSET)",
                       what, type_name(type))
      .because(Cause::kernel_left_out);
}

bool has_reduction(gpucollDataType_t type, gpucollRedOp_t op) noexcept {
  return known(type) && static_cast<unsigned>(op) < gpucollNumOps &&
         reduction_kernels(proto_type(type), static_cast<proto::RedOp>(op)).plan != nullptr;
}
bool has_pre_mul_sum(gpucollDataType_t type) noexcept {
  return known(type) && reduction_kernels(proto_type(type), proto::RedOp::pre_mul_sum).plan != nullptr;
}

Status check_rank(const Caller& caller, const char* name, int rank) {
  if (rank >= 0 && rank < caller.n_ranks) return {};
  return Status::error(Code::invalid_argument, "%s %d is none of the %d ranks", name, rank, caller.n_ranks);
}

Status check_type(gpucollDataType_t type) {
  if (known(type)) return {};
  return Status::error(Code::invalid_argument, "datatype %d is no gpucollDataType_t", static_cast<int>(type));
}

Result<core::CollectiveTask> make_task(const Caller& caller, const CollectiveCall& call) {
  GC_TRY(check_type(call.type));
  if (has_root(call.function)) GC_TRY(check_rank(caller, "root", call.root));
  core::CollectiveTask task = moving_task(call.function);
  if (reduces(call.function)) GC_TRY(set_reduction(caller, call, &task));  // its kernels instead
  GC_TRY_AS(const Extent extent, extent_of(caller, call));
  GC_TRY(check_buffers(caller, call, extent));
  task.send = extent.send_bytes ? caller.device.kernel_address(call.send) : nullptr;
  task.recv = extent.recv_bytes ? caller.device.kernel_address(call.recv) : nullptr;
  // A function that only moves data moves bytes.
  task.element_bytes = reduces(call.function) ? static_cast<uint32_t>(type_size(call.type)) : 1;
  task.count = reduces(call.function) ? call.count : call.count * type_size(call.type);
  task.root = has_root(call.function) ? static_cast<uint32_t>(call.root) : 0;
  task.stream = call.stream;
  return task;
}

core::Call named(const CollectiveCall& call) {
  core::CallNames names = {call.function, static_cast<uint8_t>(call.type)};
  const auto op = static_cast<uint32_t>(call.op);
  const bool is_made = op >= gpucollNumOps;  // by the program
  if (reduces(call.function)) names.op = static_cast<uint8_t>(is_made ? uint32_t(proto::RedOp::pre_mul_sum) : op);
  if (has_root(call.function)) names.root = call.root;
  return core::call_of(call.count, names);
}

core::CollectiveTask moving_task(Function function) {
  core::CollectiveTask task = {};
  task.function = function;
  task.kernels = moving_kernels();
  return task;
}

Result<core::CollectiveTask> barrier_task(void* scratch, gpucollStream_t stream) {
  constexpr auto kSum = proto::RedOp::sum;
  core::CollectiveTask task = {};
  task.function = Function::all_reduce;
  task.kernels = gc_mutant(465) ? core::CollectiveKernels() : reduction_kernels(proto::DataType::int32, kSum);
  if (!task.kernels.plan) return no_kernel("a barrier, a sum", gpucollInt32, kSum);
  task.send = task.recv = scratch;
  task.count = 1;
  task.element_bytes = sizeof(int32_t);
  task.stream = stream;
  return task;
}

Result<core::SendRecvTask> make_task(const Caller& caller, const PairCall& call) {
  GC_TRY(check_type(call.type));
  GC_TRY(check_rank(caller, "peer", call.peer));
  GC_TRY_AS(const size_t bytes, bytes_of("count", call.count, call.type));
  GC_TRY(check_buffer(caller.device, call.name, call.buffer, bytes, call.type));
  return core::SendRecvTask{bytes ? caller.device.kernel_address(call.buffer) : nullptr, bytes, call.stream};
}

}  // namespace gpucoll::coll
