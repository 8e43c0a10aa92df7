// An MPI_Allreduce that spoils one byte, linked in front of MPI's, and an MPI_Barrier that waits for nobody:
// gpucoll-perf must see both. Spoilt is the same bit on one rank, or with SPOIL=runs another bit in every call, alike
// on all ranks.
#include <gpucoll/gpucoll.h>
#include <mpi.h>

#include <cstdlib>

namespace {

// The bits to be turned over in this call; 0 for none.
unsigned char damage(int count, MPI_Comm comm) {
  static unsigned char calls = 0;
  if (count < 100) return 0;  // short ones are the tool's own
  if (std::getenv("SPOIL")) return ++calls;
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  return rank == 1;
}

}  // namespace

extern "C" int MPI_Allreduce(const void* send, void* recv, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  int rc = PMPI_Allreduce(send, recv, count, type, op, comm);
  const unsigned char bits = damage(count, comm);
  if (rc != MPI_SUCCESS || !bits) return rc;
  unsigned char byte = 0;
  void* victim = static_cast<char*>(recv) + 4 * 33 + 3;
  if (gpucollMemcpy(&byte, victim, 1) != gpucollSuccess) return MPI_ERR_OTHER;
  byte ^= bits;
  return gpucollMemcpy(victim, &byte, 1) == gpucollSuccess ? rc : MPI_ERR_OTHER;
}

extern "C" int MPI_Barrier(MPI_Comm) { return MPI_SUCCESS; }
