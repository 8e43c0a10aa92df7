// From tasks to launches: pure functions, no device needed, the same answer on every rank.
//
// Tasks keep their order. Consecutive tasks of one kernel and one stream share a plan, up to proto::kMaxItems.
#pragma once
#include <cstdint>
#include <vector>

#include "gpu/device.h"
#include "proto/format/plan.h"

namespace gpucoll::core {

// One enqueued collective. Addresses are kernel addresses.
struct Task {
  const gpu::Kernel* kernel;
  const void* send;
  void* recv;
  uint64_t count;  // elements
  uint32_t element_bytes;
  gpu::Stream stream;
};

// What of a communicator decides the cut.
struct PlanShape {
  int n_ranks;
  int n_channels;
};

struct PlannedLaunch {
  const gpu::Kernel* kernel;
  gpu::Stream stream;
  proto::Plan plan;  // comm, done_word and done_value are filled in at the launch
  int blocks() const { return __builtin_popcountll(plan.channel_mask); }
};

// Channels that pay for `bytes`: one for each kBytesPerChannelStep of a rank's share, at most n_channels.
inline constexpr uint64_t kBytesPerChannelStep = 16384;
int channels_for(uint64_t bytes, const PlanShape& shape);

std::vector<PlannedLaunch> plan(const std::vector<Task>& tasks, const PlanShape& shape);

}  // namespace gpucoll::core
