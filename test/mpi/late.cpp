// Collectives to which one rank comes late, for tests of the trace: the last rank sleeps before calls 5 and 10 of 15,
// from when the others are about to make them; a nonblocking call follows, and a message of each rank to the next.
// --late MS: so long instead of 100 ms. --die N: it kills itself instead of call N, 5 or 10, of the nonblocking one,
// 16, after a second in which the others come to it; or while it waits for a message that nobody sends, 17.
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "mpi_test.h"

namespace {
using namespace mpi_test;

constexpr int kCount = 4;
int g_late_ms = 100;

// Lets the last rank wait until all others have come here, and then be late, or never come.
void come_late(int call, int last) {
  if (g_rank != g_size - 1) MPI_Send(nullptr, 0, MPI_BYTE, g_size - 1, call, MPI_COMM_WORLD);
  if (g_rank != g_size - 1) return;
  for (int r = 0; r < g_rank; ++r) MPI_Recv(nullptr, 0, MPI_BYTE, r, call, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  usleep(static_cast<useconds_t>(call == last ? 1000 : g_late_ms) * 1000);
  if (call == last) kill(getpid(), SIGKILL);
}

void make_calls(int last) {
  Memory send(Where::device, kCount * sizeof(int)), recv(Where::device, kCount * sizeof(int));
  std::vector<int> values(kCount, g_rank + 1);
  send.write(values.data());
  for (int call = 1; call <= 15; ++call) {
    if (call == 5 || call == 10) come_late(call, last);
    MPI_Allreduce(send.as<int>(), recv.as<int>(), kCount, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    recv.read(values.data());
    if (!checked(values[0] == g_size * (g_size + 1) / 2)) fail("call %d: the sum is %d", call, values[0]);
  }
  if (last == 16) come_late(16, last);
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
  int last = 0;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (!std::strcmp(argv[i], "--late")) g_late_ms = std::atoi(argv[i + 1]);
    if (!std::strcmp(argv[i], "--die")) last = std::atoi(argv[i + 1]);
  }
  make_calls(last);
  pass_on(last);
  return mpi.finish("late");
}
