// Processes of two jobs in one communicator: the program starts one more copy of itself, merges with it, and both
// reduce device memory together; then they go apart.
#include "abi/abi.h"
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

// Before they merge: each of both groups gathers what the other one has.
void gather_across(MPI_Comm other, const char* who) {
  int rank, peers;
  MPI_Comm_rank(other, &rank);
  MPI_Comm_remote_size(other, &peers);
  const size_t n = kCount;
  std::vector<int> mine(n), all(n * static_cast<size_t>(peers));
  for (size_t i = 0; i < n; i++) mine[i] = rank * 100000 + static_cast<int>(i);
  Memory input(Where::device, n * sizeof(int)), output(Where::device, all.size() * sizeof(int));
  input.write(mine.data());
  const uint64_t ran = gpucoll_abi(GC_ABI_VERSION)->runs();
  MPI_Allgather(input.at(0), kCount, MPI_INT, output.at(0), kCount, MPI_INT, other);
  if (!checked(gpucoll_abi(GC_ABI_VERSION)->runs() == ran + 1)) fail("%s: the allgather between groups is staged", who);
  output.read(all.data());
  for (size_t i = 0; i < all.size(); i++) {
    const int expected = static_cast<int>(i / n * 100000 + i % n);
    if (checked(all[i] == expected)) continue;
    fail("%s: element %zu is %d instead of %d", who, i, all[i], expected);
    break;
  }
}

}  // namespace

int main(int argc, char** argv) {
  Mpi mpi(argc, argv);
  MPI_Comm other, all;
  MPI_Comm_get_parent(&other);
  const bool child = other != MPI_COMM_NULL;
  if (!child) MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other, MPI_ERRCODES_IGNORE);
  gather_across(other, child ? "spawned process" : "parent");
  MPI_Intercomm_merge(other, child, &all);
  reduce_together(all, child ? "spawned process" : "parent");
  MPI_Comm_free(&all);
  MPI_Comm_disconnect(&other);
  return mpi.finish(child ? "spawned" : "parents");
}
