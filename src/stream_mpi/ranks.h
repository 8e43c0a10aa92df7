// The communicator of the C API that belongs to an MPI communicator: made once, kept as an attribute.
//
// Thread safety: any thread, one at a time for each communicator. Ownership: the MPI communicator owns it: its
// attribute is deleted by MPI_Comm_free; what is left then goes with the attributes of MPI_COMM_SELF, at the beginning
// of MPI_Finalize, when MPI and devices still work.
#pragma once
#include <mpi.h>

#include "base/status.h"
#include "gpucoll/gpucoll.h"

namespace gpucoll::stream_mpi {

struct Ranks {
  MPI_Comm mpi;
  gpucollComm_t comm;
  int rank, size;
  bool out_of_step = false;  // there is no `comm`, and the ranks can no longer meet on `mpi`
};

// A call of the C API in a function that returns a Status: the error was told by the C API.
inline Status told(gpucollResult_t result) {
  if (result == gpucollSuccess) return {};
  Status status(static_cast<Code>(result), gpucollGetLastError(nullptr));
  status.mark_told();
  return status;
}

// Says whether all ranks make the call that asks; only then it may make the communicator.
enum class Caller { all_ranks, one_rank };

// `where`: the function that the program has called. Errors: invalid_argument for what is no intracommunicator;
// invalid_usage where MPI does not run, where a call of one rank would have to make the communicator, or where an
// earlier call has given up waiting for the other ranks; and those of making it, which are the same on all ranks and
// are told already.
Result<const Ranks*> ranks_of(const char* where, MPI_Comm comm, Caller caller);

}  // namespace gpucoll::stream_mpi
