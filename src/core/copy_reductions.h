// Large allreduce, reduce and reduce_scatter by copy engines: these carry the operands to the rank that reduces them,
// a kernel there reduces what has come (coll/device/local_reduce.h), copy engines carry the result to whoever wants it.
//
// The data are cut into shares, one for each rank that reduces, and shares into pieces. Step k, for piece k of every
// share: the operands of the next piece or two are on their way while piece k is reduced, and so are the results of
// those before; links never wait for kernels. Operands arrive in landing memory of 2 or 3 pieces from each rank. Each
// rank sends to the others in the order of distance, the operand of one piece together with the result of another.
// A piece is reduced in the order of ranks, by one rank, so all ranks have the same bits (docs/adr/0016).
//
// Pure functions of facts that are equal on all ranks, so that all of them do alike.
#pragma once
#include <vector>

#include "core/planner.h"
#include "core/step_messages.h"
#include "core/task.h"
#include "core/tuner.h"

namespace gpucoll::core {

// bytes: count x element size of the task. Where the reduction has a kernel for it.
bool reduces_by_copies(Function function, uint64_t bytes, const CommShape& shape);
inline bool reduces_by_copies(const CollectiveTask& task, const CommShape& shape) {
  return shape.copy_reduction_bytes && task.local &&
         reduces_by_copies(task.function, task.count * task.element_bytes, shape);
}

// The largest piece of so many ranks, by what is wanted: landing memory is bounded.
uint64_t copy_piece_bytes(int n_ranks, uint64_t wanted);
// The landing memory that a rank needs, whatever it reduces.
uint64_t landing_bytes(const CommShape& shape);

// Blocks, at most so many, that reduce so many bytes of this device's memory (proto/format/local_reduction.h).
int local_blocks(uint64_t bytes, int most) noexcept;
// What `most` is for a communicator's launches.
int most_local_blocks(const CommShape& shape) noexcept;

struct CopyReductions {
  StepMessages messages;
  std::vector<PlannedLaunch> steps;  // without a kernel where this rank has nothing to reduce
};
// Of those of the queue's collectives that go this way, one after the other. landing: kernel address.
CopyReductions plan_copy_reductions(const TaskQueue& queue, int rank, const CommShape& shape, uint8_t* landing);

}  // namespace gpucoll::core
