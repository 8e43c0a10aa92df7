#include "coll/reduce_local.h"

#include <algorithm>

#include "coll/collectives.h"
#include "coll/local_launch.h"
#include "proto/format/local_reduction.h"

namespace gpucoll::coll {
namespace {

int blocks_for(const gpu::Device& device, uint64_t bytes) {
  const uint64_t tiles = (bytes + proto::kLocalTile - 1) / proto::kLocalTile;
  return static_cast<int>(std::min(tiles, 4 * static_cast<uint64_t>(device.defaults().channels)));
}

}  // namespace

// As an allreduce of two ranks, of which the second is this one.
Result<bool> reduce_local(gpu::Device& device, const void* in, void* inout, size_t count, gpucollDataType_t type,
                          gpucollRedOp_t op) {
  if (count == 0) return true;
  constexpr int kRank = 1, kRanks = 2, kNoRoot = -1;
  const Caller caller = {device, kRank, kRanks, nullptr};
  const CollectiveCall call = {proto::Function::all_reduce, in, inout, count, type, op, kNoRoot, nullptr};
  const Result<core::CollectiveTask> task = make_task(caller, call);
  if (!task || !task->local) return false;
  proto::Plan plan = {};
  plan.n_items = 1;
  auto* const result = static_cast<uint8_t*>(task->recv);
  auto* const first = static_cast<uint8_t*>(const_cast<void*>(task->send));
  proto::local_reduction(plan) = {result, first, result, 0, count, task->argument, kRank, kRanks, task->op, {}};
  GC_TRY(launch_and_wait(device, *task->local, plan, blocks_for(device, count * task->element_bytes)));
  return true;
}

}  // namespace gpucoll::coll
