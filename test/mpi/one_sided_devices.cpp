// Device memory that would become part of windows: where it has bytes, an error says that it cannot be attached.
#include "mpi_test.h"

namespace {
using namespace mpi_test;

void windows_of_device_memory() {
  Memory memory(Where::device, 4096);
  MPI_Comm copy;
  MPI_Win win;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN);
  // Nothing is there.
  MPI_Win_create(memory.at(0), 0, 1, MPI_INFO_NULL, copy, &win);
  if (!checked(win != MPI_WIN_NULL)) fail("there is no window of no bytes");
  MPI_Win_free(&win);
  MPI_Win_create_dynamic(MPI_INFO_NULL, copy, &win);
  MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
  const int attached = class_of(MPI_Win_attach(win, memory.at(0), 4096));
  if (!checked(attached != MPI_SUCCESS)) fail("device memory was attached to a window");
  MPI_Win_free(&win);
  MPI_Comm_free(&copy);
}

}  // namespace

int main(int argc, char** argv) {
  Mpi mpi(argc, argv);
  use_own_device();
  windows_of_device_memory();
  return mpi.finish("one_sided_devices");
}
