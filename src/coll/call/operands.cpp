#include "coll/call/operands.h"

#include "mpi/datatype/call_blocks.h"
#include "mpi/staging/packing.h"
#include "task/collective_task.h"
#include "task/types.h"

namespace gpucoll::coll {
namespace {

void give(const gc_call& call, const CallContext& context) {
  const bool parts = call.function == GC_FUNCTION_reduce_scatter_block;
  for (int i = 0; i < call.n_destinations; ++i) {
    const Block block = parts ? block_of(call.send, i, call.n_destinations) : whole(call.send);
    if (block.bytes)
      context.queue.add_send(call.destinations[i],
                             {context.device.kernel_address(block.address), block.bytes, nullptr});
  }
}

// Returns the task of the result as it would be made in place, with its kernel.
Result<core::CollectiveTask> task_of_result(const gc_call& call, const CallContext& context) {
  const auto type = static_cast<gpucollDataType_t>(call.type);
  void* const result = const_cast<void*>(call.recv.address);
  CollectiveCall made = {proto::Function::all_reduce,          result, result, call.recv.bytes / type_size(type), type,
                         static_cast<gpucollRedOp_t>(call.op), -1,     nullptr};
  made.in_usable_memory = true;  // look_at_memory()
  GC_TRY_AS(core::CollectiveTask task, make_task({context.device, context.rank, context.n_ranks, nullptr}, made));
  if (task.kernels.local) return task;
  return Status::error(Code::unsupported,
                       "there is no kernel that reduces its type on one device; use a predefined type");
}

// The only operand is the result. But what is in the gaps of its elements must not get there: a pair that is reduced
// with itself stays as it is (maxloc, minloc).
void take(const core::CollectiveTask& its, uint8_t* operand, bool gaps, core::TaskQueue& queue) {
  auto* const result = static_cast<uint8_t*>(its.recv);
  if (gaps)
    queue.late_reductions.push_back(local_task(its, {operand, operand, result, its.count}));
  else
    add_copy(queue, &queue.after, result, operand, its.count * its.element_bytes);
}

// They land one behind the other, in the order of their ranks, in which they are reduced: everywhere alike.
Status get(const gc_call& call, const CallContext& context) {
  GC_TRY_AS(const core::CollectiveTask its, task_of_result(call, context));
  core::TaskQueue& queue = context.queue;
  const auto n = static_cast<uint32_t>(call.n_sources);
  const size_t bytes = call.operand_elements * its.element_bytes, stride = packs(bytes);
  if (bytes == 0) return {};
  if (n == 1 && call.operand_elements == its.count && !reduces_pairs_with_gaps(call)) {
    queue.add_recv(call.sources[0], {its.recv, bytes, nullptr});
    return {};
  }
  GC_TRY_AS(uint8_t* const landed, context.scratch.get(context.device, n * stride));
  for (uint32_t i = 0; i < n; ++i) queue.add_recv(call.sources[i], {landed + i * stride, bytes, nullptr});
  uint8_t* const first = landed + call.first_element * its.element_bytes;
  if (its.count == 0) return {};
  if (n == 1) {
    take(its, first, reduces_pairs_with_gaps(call), queue);
    return {};
  }
  auto* const result = static_cast<uint8_t*>(its.recv);
  queue.late_reductions.push_back(local_task(its, {first, first + stride, result, its.count, stride, 0, n}));
  return {};
}

}  // namespace

Status add_operands(const gc_call& call, const CallContext& context) {
  give(call, context);
  return call.n_sources ? get(call, context) : Status();
}

}  // namespace gpucoll::coll
