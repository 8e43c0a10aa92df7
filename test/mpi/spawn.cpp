// Processes of two jobs in one communicator: the program starts one more copy of itself, merges with it, and both
// reduce device memory together; then they go apart.
#include "mpi_test.h"

namespace {
using namespace mpi_test;

constexpr int kCount = 5000;

void reduce_together(MPI_Comm comm, const char* who) {
  int rank, size;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  std::vector<int> data(kCount);
  Memory memory(Where::device, kCount * sizeof(int));
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < kCount; i++) data[static_cast<size_t>(i)] = (rank + 1) * (i + round);
    memory.write(data.data());
    MPI_Allreduce(MPI_IN_PLACE, memory.at(0), kCount, MPI_INT, MPI_SUM, comm);
    memory.read(data.data());
    for (int i = 0; i < kCount; i++) {
      const int expected = size * (size + 1) / 2 * (i + round);
      if (checked(data[static_cast<size_t>(i)] == expected)) continue;
      fail("%s, round %d: element %d is %d instead of %d", who, round, i, data[static_cast<size_t>(i)], expected);
      break;
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  Mpi mpi(argc, argv);
  MPI_Comm other, all;
  MPI_Comm_get_parent(&other);
  const bool child = other != MPI_COMM_NULL;
  if (!child) MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other, MPI_ERRCODES_IGNORE);
  MPI_Intercomm_merge(other, child, &all);
  reduce_together(all, child ? "spawned process" : "parent");
  MPI_Comm_free(&all);
  MPI_Comm_disconnect(&other);
  return mpi.finish(child ? "spawned" : "parents");
}
