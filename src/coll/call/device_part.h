// Makes a collective of MPI into this rank's part: tasks of core for its device, and what they pack and unpack.
//
// In three steps: look at the buffers (buffer_memory.h), pack what has gaps or is on the host (packing.h), make the
// tasks (reductions.h, moves.h).
// Thread safety: as the communicator's. Ownership: a DevicePart borrows the caller's buffers and the scratch memory.
#pragma once
#include <cstdint>

#include "abi/abi.h"
#include "base/status.h"
#include "core/plan/task.h"
#include "mpi/staging/packing.h"
#include "mpi/staging/scratch.h"

namespace gpucoll::coll {

struct DevicePart {
  gpu::Device* device = nullptr;
  bool has_device_memory = false, has_host_memory = false;  // neither: no bytes
  bool is_wrong = false;  // its own arguments disagree, or some of its bytes are in no allocation
  core::TaskQueue queue;  // on no stream yet
  Packing packing;
  void clear() {  // keeps the room
    device = nullptr;
    has_device_memory = has_host_memory = is_wrong = false;
    queue.clear();
    packing.clear();
  }
};

// Makes this rank's part of `call`; on `usual` (null: one that it has used, or the thread's own) where it has no bytes
// on any. `scratch` is the call's until it is done. Errors, after which the call must go through the host: not all of
// the buffers' device memory is of one device, the operation has no kernel, a buffer is misaligned, no memory for
// scratch. A part that is_wrong must not go there: the other ranks would wait for this one.
Status make_part(const gc_call& call, int rank, int n_ranks, gpu::Device* usual, Scratch& scratch, DevicePart* part);

}  // namespace gpucoll::coll
