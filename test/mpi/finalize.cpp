// Device memory inside MPI_Finalize: an attribute's delete function on MPI_COMM_SELF still has all of MPI. It runs
// after gpucoll has let go of its peers where a device was used before (argument "used"), else with the first device
// buffer.
#include "mpi_test.h"

namespace {
using namespace mpi_test;

bool g_right = false;

void reduce(Memory& memory) {
  int values[4] = {g_rank, 1, 2, 3};
  memory.write(values);
  MPI_Allreduce(MPI_IN_PLACE, memory.at(0), 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  memory.read(values);
  g_right = values[0] == g_size * (g_size - 1) / 2 && values[3] == 3 * g_size;
}

int last_call(MPI_Comm, int, void* memory, void*) {
  g_right = false;
  reduce(*static_cast<Memory*>(memory));
  return MPI_SUCCESS;
}

}  // namespace

int main(int argc, char** argv) {
  Mpi mpi(argc, argv);
  Memory memory(Where::device, 4 * sizeof(int));
  int key;
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, last_call, &key, nullptr);
  MPI_Comm_set_attr(MPI_COMM_SELF, key, &memory);
  if (argc > 1) reduce(memory);
  if (!checked(argc <= 1 || g_right)) fail("the call before MPI_Finalize gave a wrong result");
  const int status = mpi.finish("finalize");
  if (!g_right) std::printf("FAIL rank %d: the call inside MPI_Finalize gave a wrong result\n", g_rank);
  return status != 0 || !g_right;
}
