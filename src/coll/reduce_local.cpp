#include "coll/reduce_local.h"

#include "core/plan/copy_engine_reduction.h"
#include "mpi/staging/local_launch.h"
#include "proto/format/local_reduction.h"
#include "task/collective_task.h"

namespace gpucoll::coll {

// As an allreduce of two ranks, of which the second is this one.
Result<bool> reduce_local(gpu::Device& device, const void* in, void* inout, size_t count, gpucollDataType_t type,
                          gpucollRedOp_t op) {
  if (count == 0) return true;
  constexpr int kRank = 1, kRanks = 2, kNoRoot = -1;
  const Caller caller = {device, kRank, kRanks, nullptr};
  const CollectiveCall call = {proto::Function::all_reduce, in, inout, count, type, op, kNoRoot, nullptr};
  const Result<core::CollectiveTask> task = make_task(caller, call);
  if (!task || !task->kernels.local) return false;
  proto::Plan plan = {};
  plan.n_items = proto::kItemsOfLocalReduction;
  auto* const result = static_cast<uint8_t*>(task->recv);
  auto* const first = static_cast<uint8_t*>(const_cast<void*>(task->send));
  const core::LocalTask local = core::local_task(*task, {result, first, result, count, 0, kRank, kRanks});
  proto::local_reduction(plan) = local.reduction;
  const int blocks = core::local_blocks(count * task->element_bytes, 4 * device.defaults().channels);
  GC_TRY(launch_and_wait(device, *local.kernel, plan, blocks));
  return true;
}

}  // namespace gpucoll::coll
