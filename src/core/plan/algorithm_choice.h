// Decides how the collectives of a queue will run, and what their kernel is told of them.
//
// Pure functions of facts that are equal on all ranks, so that all ranks decide alike.
#pragma once
#include <cstdint>
#include <vector>

#include "core/plan/task.h"
#include "core/plan/tuner.h"

namespace gpucoll::core {

struct ChosenCollective {
  const CollectiveTask* task;
  const gpu::Kernel* kernel;
  Choice choice;
  bool planned;
};

inline bool is_one_shot(const ChosenCollective& chosen) { return chosen.choice.algorithm == Algorithm::one_shot; }
// Returns whether it runs over rings and trees, in a kernel that serves sends and receives as well.
inline bool is_by_links(const ChosenCollective& chosen) {
  return !is_one_shot(chosen) && chosen.choice.algorithm != Algorithm::all_pairs && !chosen.choice.zero_copy;
}

Choice choose_for(const CollectiveTask& task, const CommProperties& shape);
// Returns the collectives of a queue that kernels run, in the queue's order. move: the kernel for a queue without
// reductions.
std::vector<ChosenCollective> choose_all(const TaskQueue& queue, const CommProperties& shape, const gpu::Kernel* move);

// Returns the item without its channels.
proto::CollectiveItem item_of(const ChosenCollective& chosen);
proto::Batch kind_of(const ChosenCollective& chosen);

// Returns about how many bytes pass through a rank.
uint64_t work_of(const CollectiveTask& task, const CommProperties& shape);
// Returns whether direct stores (proto/direct.h) may carry it.
bool may_be_direct(const ChosenCollective& chosen);
uint64_t output_bytes(const CollectiveTask& task, const CommProperties& shape);

}  // namespace gpucoll::core
