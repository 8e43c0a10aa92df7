// Tasks: what the calls of a group ask of one communicator, before anything is planned. Plain data.
//
// Addresses are kernel addresses. Streams are as the caller gave them; null is the device's default stream.
#pragma once
#include <cstdint>
#include <deque>
#include <vector>

#include "gpu/device.h"
#include "proto/format/plan.h"

namespace gpucoll::core {

// One enqueued collective. send, recv, count, argument and root as in proto::CollectiveItem.
struct CollectiveTask {
  proto::Function function;
  // Runs plans with this task's reduction; null where the function only moves data: then every kernel serves.
  const gpu::Kernel* kernel;
  const gpu::Kernel* one_shot;  // for an allreduce of this reduction in a mesh; null where there is none
  uint8_t op;                   // of the kernel's family
  const void* send;
  void* recv;
  uint64_t count;
  uint32_t element_bytes;
  uint32_t root;
  uint64_t argument;
  gpu::Stream stream;
  // As in proto::CollectiveItem.
  bool scalar_in_memory = false;
  uint64_t argument_high = 0;
};

// One enqueued send or receive.
struct PairTask {
  void* buffer;
  uint64_t bytes;
  gpu::Stream stream;
};

// What a group holds for one communicator.
struct TaskQueue {
  explicit TaskQueue(int n_ranks) : sends(static_cast<size_t>(n_ranks)), recvs(static_cast<size_t>(n_ranks)) {}
  std::vector<CollectiveTask> collectives;         // in the order of the calls
  std::vector<std::deque<PairTask>> sends, recvs;  // by peer, in the order of the calls
  std::vector<gpu::Stream> streams;                // distinct, in order of appearance
};

}  // namespace gpucoll::core
