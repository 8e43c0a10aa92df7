// Collectives that only move data, as messages between their ranks. Large ones, since copy engines carry these
// (copy_path.h), faster than kernels do, and leave the multiprocessors to the application; exchanges of blocks between
// pairs of ranks, where they are too large for a mesh, or there is none.
//
// Pure functions of facts that are equal on all ranks, so that all of them do alike.
#pragma once
#include "core/task.h"
#include "core/tuner.h"

namespace gpucoll::core {

// bytes, here and below: count x element size of the task. Broadcast is messages between two ranks only: to more it is
// faster down a chain than out of the root alone. From how many bytes on copy engines take a collective that kernels
// would carry otherwise; 0: never.
uint64_t least_copied_collective(Function function, const CommShape& shape);
bool goes_as_messages(Function function, uint64_t bytes, const CommShape& shape);

// Takes such collectives out of the queue and puts messages in, behind those that are there.
void replace_by_messages(TaskQueue* queue, int rank, const CommShape& shape);

}  // namespace gpucoll::core
