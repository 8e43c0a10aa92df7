// Carries collectives that only move data as messages between their ranks. Large ones go so because copy engines carry
// messages (copy_messages.h) faster than kernels do, and leave the multiprocessors to the application. Exchanges of
// blocks between pairs of ranks go so where they are too large for a mesh, or where there is no mesh.
//
// Pure functions of facts that are equal on all ranks, so that all ranks do alike.
#pragma once
#include "core/plan/task.h"
#include "core/plan/tuner.h"

namespace gpucoll::core {

// Returns from how many bytes on copy engines take a collective that kernels would carry otherwise; 0: never. bytes,
// here and below: count x element size of the task. Broadcast goes as messages between two ranks only: to more ranks a
// chain is faster than sending everything from the root.
uint64_t least_copied_collective(Function function, const CommProperties& shape);
bool goes_as_messages(Function function, uint64_t bytes, const CommProperties& shape);

// Takes such collectives out of the queue and appends messages in their place.
void replace_by_messages(TaskQueue* queue, int rank, const CommProperties& shape);

}  // namespace gpucoll::core
