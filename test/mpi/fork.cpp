// Children of a rank that end by exit(): beside communicators, while a nonblocking call is under way, where a
// communicator is gone on this rank only, and after MPI_Finalize. They must end at once.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>

#include "../resources.h"
#include "mpi_test.h"

namespace {
using namespace mpi_test;

constexpr int kChild = 42, kCount = 1000;
constexpr std::chrono::seconds kBound(5);

// What is left of the standard streams' buffers belongs to the parent.
bool child_ends(const char* when) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) std::exit(kChild);
  const int status = gpucoll_test::status_in_time(child, kBound);
  const bool ended = WIFEXITED(status) && WEXITSTATUS(status) == kChild;
  if (!checked(ended)) fail("%s: a child that calls exit() ended with status %d", when, status);
  return ended;
}

void reduce(MPI_Comm comm, Memory& memory) {
  MPI_Allreduce(MPI_IN_PLACE, memory.at(0), kCount, MPI_INT, MPI_SUM, comm);
}

}  // namespace

int main(int argc, char** argv) {
  Mpi mpi(argc, argv);
  bool ended = true;
  const bool forks = g_rank == 0;
  MPI_Comm other;
  MPI_Comm_dup(MPI_COMM_WORLD, &other);
  {
    Memory memory(Where::device, kCount * sizeof(int));
    const std::vector<int> ones(kCount, 1);
    std::vector<int> result(kCount);
    memory.write(ones.data());
    reduce(MPI_COMM_WORLD, memory);
    reduce(other, memory);
    if (forks) ended &= child_ends("beside communicators");

    MPI_Request request;
    if (!forks) MPI_Barrier(MPI_COMM_WORLD);
    MPI_Iallreduce(MPI_IN_PLACE, memory.at(0), kCount, MPI_INT, MPI_SUM, other, &request);
    if (forks) {
      ended &= child_ends("during a nonblocking call");
      MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);

    if (forks) {  // Open MPI's MPI_Comm_free waits for nobody
      MPI_Comm_free(&other);
      ended &= child_ends("with a communicator freed on this rank only");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (!forks) MPI_Comm_free(&other);

    reduce(MPI_COMM_WORLD, memory);
    memory.read(result.data());
    const int expected = g_size * g_size * g_size * g_size;
    for (int value : result)
      if (!checked(value == expected)) fail("an element is %d instead of %d", value, expected);
  }
  const int status = mpi.finish("fork");
  if (forks) ended &= child_ends("after MPI_Finalize");
  return status != 0 || !ended;
}
