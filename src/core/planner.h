// From tasks to launches: pure functions, no device needed, the same answer on every rank.
//
// Tasks keep their order. Consecutive tasks of one kernel, stream and block size share a plan, up to proto::kMaxItems.
#pragma once
#include <cstdint>
#include <vector>

#include "core/tuner.h"
#include "gpu/device.h"
#include "proto/format/plan.h"

namespace gpucoll::core {

// One enqueued collective. Addresses are kernel addresses.
struct Task {
  const gpu::Kernel* ring;
  const gpu::Kernel* one_shot;  // null where there is none
  const void* send;
  void* recv;
  uint64_t count;  // elements
  uint32_t element_bytes;
  gpu::Stream stream;
};

struct PlannedLaunch {
  const gpu::Kernel* kernel;
  gpu::Stream stream;
  int threads;
  proto::Plan plan;  // comm, done_word and done_value are filled in at the launch
  int blocks() const { return __builtin_popcountll(plan.channel_mask); }
};

// *mesh_flag is the flag of the communicator's last mesh operation, and is left at that of the last one planned.
std::vector<PlannedLaunch> plan(const std::vector<Task>& tasks, const CommShape& shape, uint32_t* mesh_flag);

}  // namespace gpucoll::core
