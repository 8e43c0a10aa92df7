// Collectives to which one rank comes late, for tests of the trace: the last rank sleeps 100 ms before calls 5 and 10
// of 15; a nonblocking call follows, and a message of each rank to the next. --die N: it kills itself before call N, 5
// or 10, before the nonblocking one, 16, or while it waits for a message that nobody sends, 17.
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "mpi_test.h"

namespace {
using namespace mpi_test;

constexpr int kCount = 4;

void make_calls(int last) {
  Memory send(Where::device, kCount * sizeof(int)), recv(Where::device, kCount * sizeof(int));
  std::vector<int> values(kCount, g_rank + 1);
  send.write(values.data());
  for (int call = 1; call <= 15; ++call) {
    if (g_rank == g_size - 1 && call % 5 == 0 && call < 15) {
      if (call == last) kill(getpid(), SIGKILL);
      usleep(100'000);
    }
    MPI_Allreduce(send.as<int>(), recv.as<int>(), kCount, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    recv.read(values.data());
    if (!checked(values[0] == g_size * (g_size + 1) / 2)) fail("call %d: the sum is %d", call, values[0]);
  }
  if (g_rank == g_size - 1 && last == 16) kill(getpid(), SIGKILL);
  MPI_Request request;
  MPI_Ibcast(recv.as<int>(), kCount, MPI_INT, 0, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

// All but rank 0 know who sends. The barrier: a process that has not looked for device memory yet gets messages by the
// PML.
void pass_on(int last) {
  const int next = (g_rank + 1) % g_size, before = (g_rank + g_size - 1) % g_size;
  Memory send(Where::device, kCount * sizeof(int)), recv(Where::device, 2 * kCount * sizeof(int));
  std::vector<int> values(kCount, g_rank);
  send.write(values.data());
  MPI_Request request;
  MPI_Irecv(recv.as<int>(), 2 * kCount, MPI_INT, g_rank ? before : MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, &request);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Send(send.as<int>(), kCount, MPI_INT, next, 7, MPI_COMM_WORLD);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  if (g_rank != g_size - 1 || last != 17) return;
  MPI_Irecv(recv.as<int>(), kCount, MPI_INT, 0, 9, MPI_COMM_WORLD, &request);
  kill(getpid(), SIGKILL);
}

}  // namespace

int main(int argc, char** argv) {
  Mpi mpi(argc, argv);
  use_own_device();
  const int last = argc > 2 && !std::strcmp(argv[1], "--die") ? std::atoi(argv[2]) : 0;
  make_calls(last);
  pass_on(last);
  return mpi.finish("late");
}
