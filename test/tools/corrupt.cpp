// An MPI_Allreduce that spoils one byte on one rank, linked in front of MPI's: gpucoll-perf must see it.
#include <gpucoll/gpucoll.h>
#include <mpi.h>

extern "C" int MPI_Allreduce(const void* send, void* recv, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  int rc = PMPI_Allreduce(send, recv, count, type, op, comm);
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  if (rc != MPI_SUCCESS || rank != 1 || count < 100) return rc;  // short ones are the tool's own
  unsigned char byte = 0;
  void* victim = static_cast<char*>(recv) + 4 * 33 + 3;
  if (gpucollMemcpy(&byte, victim, 1) != gpucollSuccess) return MPI_ERR_OTHER;
  byte ^= 1;
  return gpucollMemcpy(victim, &byte, 1) == gpucollSuccess ? rc : MPI_ERR_OTHER;
}
