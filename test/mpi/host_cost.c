/* N calls of MPI_Allreduce on host memory: the difference between N and 2 N calls under callgrind is the cost of one.
 * usage: host_cost N. Eight bytes, where a plugin's share is largest. */
#include <mpi.h>
#include <stdlib.h>

int main(int argc, char **argv) {
  const int calls = argc > 1 ? atoi(argv[1]) : 1000;
  double in = 1, out = 0, sum = 0;
  MPI_Init(&argc, &argv);
  for (int i = 0; i < calls; i++) {
    MPI_Allreduce(&in, &out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    sum += out;
  }
  MPI_Finalize();
  return sum < calls; /* every call adds at least this rank's 1 */
}
