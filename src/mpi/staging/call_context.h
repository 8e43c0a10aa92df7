// Holds what the tasks of a call are made from on this rank, besides the call itself.
//
// Plain data. Ownership: borrows all of it.
#pragma once
#include "core/plan/task.h"
#include "gpu/device.h"
#include "mpi/staging/scratch.h"

namespace gpucoll::coll {

struct CallContext {
  int rank, n_ranks;
  gpu::Device& device;
  bool send_on_host, recv_on_host;  // which of the buffers are host memory; else they are memory that kernels see
  Scratch& scratch;
  core::TaskQueue& queue;
};

}  // namespace gpucoll::coll
