// MPI_THREAD_MULTIPLE: two threads of every rank, each with a communicator of its own, reduce device memory at the same
// time, staged collectives and nonblocking ones in between.
#include <thread>

#include "mpi_test.h"

namespace {
using namespace mpi_test;

constexpr int kThreads = 2, kRounds = 60, kCount = 3001;

void work(MPI_Comm comm, int thread) {
  use_own_device();
  Memory send(Where::device, kCount * sizeof(int)), recv(Where::device, kCount * sizeof(int));
  std::vector<int> in(kCount), out(kCount);
  for (int round = 0; round < kRounds; round++) {
    for (int i = 0; i < kCount; i++) in[static_cast<size_t>(i)] = (g_rank + 1) * (i % 97) + thread * 7 + round;
    send.write(in.data());
    if (round % 3 == 2) {
      MPI_Request request;
      MPI_Iallreduce(send.at(0), recv.at(0), kCount, MPI_INT, MPI_SUM, comm, &request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (round % 3 == 1) {
      MPI_Reduce(send.at(0), recv.at(0), kCount, MPI_INT, MPI_SUM, 0, comm);
      MPI_Bcast(recv.at(0), kCount, MPI_INT, 0, comm);
    } else {
      MPI_Allreduce(send.at(0), recv.at(0), kCount, MPI_INT, MPI_SUM, comm);
    }
    recv.read(out.data());
    for (int i = 0; i < kCount; i++) {
      const int expected = g_size * (g_size + 1) / 2 * (i % 97) + g_size * (thread * 7 + round);
      if (checked(out[static_cast<size_t>(i)] == expected)) continue;
      fail("thread %d, round %d: element %d is %d instead of %d", thread, round, i, out[static_cast<size_t>(i)],
           expected);
      break;
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  Mpi mpi(argc, argv, MPI_THREAD_MULTIPLE);
  MPI_Comm comms[kThreads];
  for (MPI_Comm& comm : comms) MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  if (mpi.threads() < MPI_THREAD_MULTIPLE) {
    work(comms[0], 0);  // this MPI was built without: one after the other
    work(comms[1], 1);
  } else {
    std::thread other(work, comms[1], 1);
    work(comms[0], 0);
    other.join();
  }
  for (MPI_Comm& comm : comms) MPI_Comm_free(&comm);
  return mpi.finish("threads");
}
