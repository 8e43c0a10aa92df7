// Device memory inside MPI_Finalize: an attribute's delete function on MPI_COMM_SELF still has all of MPI. It runs
// after gpucoll has let go of its peers where a device was used before (argument "used"), else with the first device
// buffer.
//
// Argument "unstarted": instead, persistent requests are left that were never started, that other ranks are still
// making, or that have been completed; all of which is right. Argument "started": rank 0 starts some that the others do
// not start, or not even make, and waits for them; which is wrong, and an error.
//
// Argument "many": instead, many communicators are left that have used devices. It prints how long they take to close.
// One more argument: how long the other ranks are at rest when rank 0 closes, in ms.
#include <unistd.h>

#include "mpi_test.h"

namespace {
using namespace mpi_test;

bool g_right = false;

void reduce(Memory& memory, MPI_Comm comm = MPI_COMM_WORLD) {
  int values[4] = {g_rank, 1, 2, 3};
  memory.write(values);
  MPI_Allreduce(MPI_IN_PLACE, memory.at(0), 4, MPI_INT, MPI_SUM, comm);
  memory.read(values);
  g_right = values[0] == g_size * (g_size - 1) / 2 && values[3] == 3 * g_size;
}

int last_call(MPI_Comm, int, void* memory, void*) {
  g_right = false;
  reduce(*static_cast<Memory*>(memory));
  return MPI_SUCCESS;
}

MPI_Request make(Memory& memory, MPI_Comm comm) {
  MPI_Request request;
  GC_INIT(Allreduce)(MPI_IN_PLACE, memory.at(0), 4, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &request);
  return request;
}

// Rank 1 comes to MPI_Finalize before the others have made any; more are left than there are lines on the board.
void leave_unstarted(Memory& memory) {
  constexpr int kMany = 20;
  const useconds_t late_us = std::getenv("GC_MUTANT") ? 2'000'000 : 100'000;  // a mutant shows only if rank 1 is there
  MPI_Comm dup, freed;
  MPI_Comm_dup(MPI_COMM_WORLD, &dup);
  MPI_Comm_dup(MPI_COMM_WORLD, &freed);
  MPI_Request completed = make(memory, MPI_COMM_WORLD);
  MPI_Start(&completed);
  MPI_Wait(&completed, MPI_STATUS_IGNORE);
  if (g_rank != 1) usleep(late_us);
  MPI_Request barrier;
  for (int i = 0; i < kMany; i++) make(memory, i % 2 ? freed : MPI_COMM_WORLD);
  make(memory, dup);
  GC_INIT(Barrier)(dup, MPI_INFO_NULL, &barrier);
  MPI_Comm_free(&freed);
  int any;
  for (int i = 0; g_rank != 1 && i < 100; i++, usleep(1000))
    MPI_Iprobe(MPI_ANY_SOURCE, 0, MPI_COMM_SELF, &any, MPI_STATUS_IGNORE);
}

// Waits for the end of one that nobody else starts.
void start_alone(MPI_Request request) {
  MPI_Start(&request);
  if (!checked(MPI_Wait(&request, MPI_STATUS_IGNORE) != MPI_SUCCESS)) fail("a start that the others left out is done");
}

// The last one is made by rank 0 alone, and has ended before it is started.
void leave_starting(Memory& memory) {
  constexpr int kUntilEnded_us = 300000;
  MPI_Comm dup;
  MPI_Comm_dup(MPI_COMM_WORLD, &dup);
  for (MPI_Comm comm : {MPI_COMM_WORLD, dup}) MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Request made_by_all = make(memory, MPI_COMM_WORLD);
  if (g_rank != 0) return;
  MPI_Request made_alone = make(memory, dup);
  start_alone(made_by_all);
  usleep(kUntilEnded_us);
  start_alone(made_alone);
}

double g_began = 0;

int tell_time(MPI_Comm, int, void*, void*) {
  std::printf("rank %d has closed its communicators after %.1f ms\n", g_rank, (MPI_Wtime() - g_began) * 1e3);
  return MPI_SUCCESS;
}

// The other ranks are at rest for a while when rank 0 closes.
void leave_many(Memory& memory, int rest_ms) {
  constexpr int kMany = 16;
  int key;
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, tell_time, &key, nullptr);
  MPI_Comm_set_attr(MPI_COMM_SELF, key, nullptr);
  for (int i = 0; i < kMany; i++) {
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    reduce(memory, comm);
    if (!checked(g_right)) fail("a call on one of many communicators gave a wrong result");
  }
  if (g_rank != 0) usleep(static_cast<useconds_t>(rest_ms) * 1000);
  g_began = MPI_Wtime();
}

}  // namespace

int main(int argc, char** argv) {
  Mpi mpi(argc, argv);
  const std::string mode = argc > 1 ? argv[1] : "";
  Memory memory(Where::device, 4 * sizeof(int));
  if (mode == "unstarted") leave_unstarted(memory);
  if (mode == "started") leave_starting(memory);
  if (mode == "many") leave_many(memory, argc > 2 ? std::atoi(argv[2]) : 0);
  if (mode == "unstarted" || mode == "started" || mode == "many") return MPI_Finalize() != MPI_SUCCESS || g_failures;
  int key;
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, last_call, &key, nullptr);
  MPI_Comm_set_attr(MPI_COMM_SELF, key, &memory);
  if (argc > 1) reduce(memory);
  if (!checked(argc <= 1 || g_right)) fail("the call before MPI_Finalize gave a wrong result");
  const int status = mpi.finish("finalize");
  if (!g_right) std::printf("FAIL rank %d: the call inside MPI_Finalize gave a wrong result\n", g_rank);
  return status != 0 || !g_right;
}
