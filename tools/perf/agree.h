// Makes one failure everyone's: collective start-up steps either succeed on every rank or fail on every rank with
// the same sentence, so that nobody waits for a rank that has given up.
// Thread safety: collective over the communicator, which must carry host memory.
#pragma once
#include <mpi.h>

#include "base/status.h"

namespace gpucoll::perf {

// OK if it was on every rank, else the failure of the lowest rank that has one.
Status agree(const Status& mine, MPI_Comm comm);

}  // namespace gpucoll::perf
