// Reductions of what ranks of another group send, as messages and a kernel of this device.
//
// Thread safety: as the context's.
#pragma once
#include "abi/abi.h"
#include "base/status.h"
#include "mpi/staging/call_context.h"

namespace gpucoll::coll {

// Adds the tasks of a call that combines, on memory that kernels see. Errors: there is no kernel for it, the result is
// misaligned, no memory for scratch.
Status add_operands(const gc_call& call, const CallContext& context);

}  // namespace gpucoll::coll
