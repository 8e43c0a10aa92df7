// Collectives of MPI that only move data, as tasks of core. Equal blocks are collectives of core; where ranks or blocks
// differ (the v-variants, neighbours) each block is a message. Data are bytes: the types of two ranks may differ.
//
// Thread safety: as the context's.
#pragma once
#include "abi/abi.h"
#include "base/status.h"
#include "mpi/staging/call_context.h"

namespace gpucoll::coll {

// Adds the tasks of a call on memory that kernels see. Errors: truncated or invalid_argument, where this rank
// sends more or less to itself than it receives; no memory for scratch.
Status add_moves(const gc_call& call, const CallContext& context);

}  // namespace gpucoll::coll
