// The reductions of MPI as tasks of core.
//
// Thread safety: as the context's.
#pragma once
#include "abi/abi.h"
#include "base/status.h"
#include "mpi/staging/call_context.h"

namespace gpucoll::coll {

// Adds the tasks of a reduction on memory that kernels see. Errors: there is no kernel for it, a buffer is misaligned,
// no memory for scratch.
Status add_reductions(const gc_call& call, const CallContext& context);

}  // namespace gpucoll::coll
