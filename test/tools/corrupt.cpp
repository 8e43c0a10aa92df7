// An MPI_Allreduce and receives that spoil one byte, linked in front of MPI's, and an MPI_Barrier that waits for
// nobody: gpucoll-perf must see them all. Spoilt is the same bit on one rank, or with SPOIL=runs another bit in every
// call, alike on all ranks.
#include <gpucoll/gpucoll.h>
#include <mpi.h>

#include <cstdlib>

namespace {

constexpr int kLong = 100;

// The bits to be turned over in this call; 0 for none.
unsigned char damage(int count, MPI_Comm comm) {
  static unsigned char calls = 0;
  if (count < kLong) return 0;  // short ones are the tool's own
  if (std::getenv("SPOIL")) return ++calls;
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  return rank == 1;
}

// Messages of a test may be one element of a derived type; acknowledgements are none.
unsigned char damage_message(int count, MPI_Comm comm) { return count > 0 ? damage(kLong, comm) : 0; }

// Turns bits of the byte at 4 * 33 + 3 over.
int spoil(void* data, unsigned char bits) {
  unsigned char byte = 0;
  void* victim = static_cast<char*>(data) + 4 * 33 + 3;
  if (gpucollMemcpy(&byte, victim, 1) != gpucollSuccess) return MPI_ERR_OTHER;
  byte ^= bits;
  return gpucollMemcpy(victim, &byte, 1) == gpucollSuccess ? MPI_SUCCESS : MPI_ERR_OTHER;
}

// The buffer of the last nonblocking receive, where it is to be spoilt.
void* g_victim = nullptr;

}  // namespace

extern "C" int MPI_Allreduce(const void* send, void* recv, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  int rc = PMPI_Allreduce(send, recv, count, type, op, comm);
  const unsigned char bits = damage(count, comm);
  return rc == MPI_SUCCESS && bits ? spoil(recv, bits) : rc;
}

extern "C" int MPI_Recv(void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
                        MPI_Status* status) {
  int rc = PMPI_Recv(data, count, type, from, tag, comm, status);
  const unsigned char bits = damage_message(count, comm);
  return rc == MPI_SUCCESS && bits ? spoil(data, bits) : rc;
}

extern "C" int MPI_Irecv(void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
                         MPI_Request* request) {
  g_victim = damage_message(count, comm) ? data : nullptr;
  return PMPI_Irecv(data, count, type, from, tag, comm, request);
}

extern "C" int MPI_Waitall(int count, MPI_Request* requests, MPI_Status* statuses) {
  int rc = PMPI_Waitall(count, requests, statuses);
  return rc == MPI_SUCCESS && g_victim ? spoil(g_victim, 1) : rc;
}

extern "C" int MPI_Barrier(MPI_Comm) { return MPI_SUCCESS; }
