// One-sided communication beside gpucoll: host memory goes as without it, and device memory is an error that says so.
#include "mpi_test.h"

namespace {
using namespace mpi_test;

constexpr int kInts = 100;
// An origin, what is compared with the target, and a result, all in memory of one kind.
struct Operands {
  explicit Operands(Where where) : origin(where, bytes()), compared(where, bytes()), result(where, bytes()) {}
  static size_t bytes() { return kInts * sizeof(int); }
  Memory origin, compared, result;
};

struct Operation {
  const char* name;
  int (*call)(Operands& o, int peer, MPI_Win win);
};

int completed(int rc, MPI_Request& request) { return rc == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : rc; }

const Operation kOperations[] = {
    {"MPI_Put", [](Operands& o, int peer,
                   MPI_Win win) { return MPI_Put(o.origin.at(0), kInts, MPI_INT, peer, 0, kInts, MPI_INT, win); }},
    {"MPI_Get", [](Operands& o, int peer,
                   MPI_Win win) { return MPI_Get(o.origin.at(0), kInts, MPI_INT, peer, 0, kInts, MPI_INT, win); }},
    {"MPI_Accumulate",
     [](Operands& o, int peer, MPI_Win win) {
       return MPI_Accumulate(o.origin.at(0), kInts, MPI_INT, peer, 0, kInts, MPI_INT, MPI_SUM, win);
     }},
    {"MPI_Rput",
     [](Operands& o, int peer, MPI_Win win) {
       MPI_Request request;
       return completed(MPI_Rput(o.origin.at(0), kInts, MPI_INT, peer, 0, kInts, MPI_INT, win, &request), request);
     }},
    {"MPI_Rget",
     [](Operands& o, int peer, MPI_Win win) {
       MPI_Request request;
       return completed(MPI_Rget(o.origin.at(0), kInts, MPI_INT, peer, 0, kInts, MPI_INT, win, &request), request);
     }},
    {"MPI_Raccumulate",
     [](Operands& o, int peer, MPI_Win win) {
       MPI_Request request;
       return completed(
           MPI_Raccumulate(o.origin.at(0), kInts, MPI_INT, peer, 0, kInts, MPI_INT, MPI_SUM, win, &request), request);
     }},
    {"MPI_Get_accumulate",
     [](Operands& o, int peer, MPI_Win win) {
       return MPI_Get_accumulate(o.origin.at(0), kInts, MPI_INT, o.result.at(0), kInts, MPI_INT, peer, 0, kInts,
                                 MPI_INT, MPI_SUM, win);
     }},
    {"MPI_Get_accumulate without an origin",
     [](Operands& o, int peer, MPI_Win win) {
       return MPI_Get_accumulate(nullptr, 0, MPI_INT, o.result.at(0), kInts, MPI_INT, peer, 0, kInts, MPI_INT,
                                 MPI_NO_OP, win);
     }},
    {"MPI_Rget_accumulate",
     [](Operands& o, int peer, MPI_Win win) {
       MPI_Request request;
       return completed(MPI_Rget_accumulate(o.origin.at(0), kInts, MPI_INT, o.result.at(0), kInts, MPI_INT, peer, 0,
                                            kInts, MPI_INT, MPI_SUM, win, &request),
                        request);
     }},
    {"MPI_Fetch_and_op",
     [](Operands& o, int peer, MPI_Win win) {
       return MPI_Fetch_and_op(o.origin.at(0), o.result.at(0), MPI_INT, peer, 0, MPI_SUM, win);
     }},
    {"MPI_Compare_and_swap",
     [](Operands& o, int peer, MPI_Win win) {
       return MPI_Compare_and_swap(o.origin.at(0), o.compared.at(0), o.result.at(0), MPI_INT, peer, 0, win);
     }},
};

// Refuses device memory in each operation, after which the window is as it was: host memory is written and read.
void operations(MPI_Win win, int* window, const char* kind) {
  const int peer = (g_rank + 1) % g_size, left = (g_rank + g_size - 1) % g_size;
  Operands host(Where::host), device(Where::device);
  MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
  std::vector<int> sent(kInts, 1000 + g_rank), got(kInts);
  for (const Operation& operation : kOperations) {
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < kInts; ++i) window[i] = -1;
    MPI_Win_sync(win);
    MPI_Barrier(MPI_COMM_WORLD);
    const int refused = class_of(operation.call(device, peer, win));
    if (!checked(refused == MPI_ERR_BUFFER)) fail("%s, %s of device memory: class %d", kind, operation.name, refused);
    const int allowed = class_of(operation.call(host, peer, win));
    if (!checked(allowed == MPI_SUCCESS)) fail("%s, %s of host memory: class %d", kind, operation.name, allowed);
    MPI_Win_flush(peer, win);
    host.origin.write(sent.data());
    MPI_Put(host.origin.at(0), kInts, MPI_INT, peer, 0, kInts, MPI_INT, win);
    MPI_Win_flush(peer, win);
    MPI_Get(host.result.at(0), kInts, MPI_INT, peer, 0, kInts, MPI_INT, win);
    MPI_Win_flush(peer, win);
    host.result.read(got.data());
    if (!checked(got == sent)) fail("%s, after %s: wrong data", kind, operation.name);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_sync(win);
    if (!checked(window[kInts - 1] == 1000 + left)) fail("%s, after %s: %d", kind, operation.name, window[kInts - 1]);
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

void windows_of_host_memory() {
  std::vector<int> memory(kInts);
  MPI_Win win;
  MPI_Win_create(memory.data(), kInts * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
  operations(win, memory.data(), "MPI_Win_create");
  MPI_Win_free(&win);
  int* allocated = nullptr;
  MPI_Win_allocate(kInts * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &allocated, &win);
  operations(win, allocated, "MPI_Win_allocate");
  MPI_Win_free(&win);
  MPI_Comm copy;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  MPI_Win_allocate_shared(kInts * sizeof(int), sizeof(int), MPI_INFO_NULL, copy, &allocated, &win);
  operations(win, allocated, "MPI_Win_allocate_shared");
  MPI_Win_free(&win);
  MPI_Comm_free(&copy);
}

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
  windows_of_host_memory();
  windows_of_device_memory();
  return mpi.finish("one_sided_devices");
}
