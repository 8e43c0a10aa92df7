// Collectives to which one rank comes late, for tests of the trace: the last rank sleeps 100 ms before calls 5 and 10
// of 15, and a nonblocking call follows. --die N: it kills itself before call N, 5 or 10, or before the nonblocking
// one, 16.
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

}  // namespace

int main(int argc, char** argv) {
  Mpi mpi(argc, argv);
  use_own_device();
  make_calls(argc > 2 && !std::strcmp(argv[1], "--die") ? std::atoi(argv[2]) : 0);
  return mpi.finish("late");
}
