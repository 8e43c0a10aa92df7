// Nonblocking and persistent collectives whose counts, displacements and types lie in arrays that are gone when the
// call returns, as those of Open MPI 4.1's Fortran functions are. The collectives begin later: behind others, and where
// memory of one rank is the host's and that of the other a device's. Types are predefined ones, since Open MPI itself
// looks at arrays with others when the request is complete.
#include <unistd.h>

#include <memory>

#include "mpi_test.h"

namespace {
using namespace mpi_test;

constexpr int kCount = 100, kRounds = 10;

size_t z(int n) { return static_cast<size_t>(n); }
int value(int from, int to, int index) { return from * 1000 + to * 100 + index % 100; }

// An array that is overwritten before it is freed.
template <class T>
class Array {
 public:
  Array(int n, T spoiled) : n_(z(n)), values_(new T[z(n)]), spoiled_(spoiled) {}
  ~Array() {
    for (size_t i = 0; i < n_; i++) const_cast<volatile T*>(values_)[i] = spoiled_;
    delete[] values_;
  }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  T& operator[](int i) { return values_[i]; }
  T* get() { return values_; }

 private:
  size_t n_;
  T* values_;
  T spoiled_;
};

enum class Call { alltoallv, alltoallw, neighbor_alltoallw, neighbor_allgatherv, reduce_scatter };
constexpr Call kCalls[] = {Call::alltoallv, Call::alltoallw, Call::neighbor_alltoallw, Call::neighbor_allgatherv,
                           Call::reduce_scatter};

struct Buffers {
  Memory send, recv;
};

// Begins a call, or makes it. What it has been told of blocks is gone when this returns.
void begin(Call call, bool persistent, const Buffers& b, MPI_Comm comm, MPI_Request* request) {
  Array<int> counts(g_size, 12345), places(g_size, -54321);
  Array<MPI_Aint> far_places(g_size, MPI_Aint{1} << 40);
  Array<MPI_Datatype> types(g_size, reinterpret_cast<MPI_Datatype>(uintptr_t{0x5a5a5a5a5a5a5a58}));
  const bool in_bytes = call == Call::alltoallw;
  for (int r = 0; r < g_size; r++) {
    counts[r] = kCount;
    places[r] = r * kCount * (in_bytes ? static_cast<int>(sizeof(int)) : 1);
    far_places[r] = static_cast<MPI_Aint>(z(r) * kCount * sizeof(int));
    types[r] = MPI_INT;
  }
  const void* const from = b.send.at(0);
  void* const to = b.recv.at(0);
  int *const n = counts.get(), *const at = places.get();
#define GC_BEGIN(I, X, ...) \
  persistent ? GC_INIT(X)(from, __VA_ARGS__, comm, MPI_INFO_NULL, request) : MPI_##I(from, __VA_ARGS__, comm, request)
  switch (call) {
    case Call::alltoallv: GC_BEGIN(Ialltoallv, Alltoallv, n, at, MPI_INT, to, n, at, MPI_INT); break;
    case Call::alltoallw: GC_BEGIN(Ialltoallw, Alltoallw, n, at, types.get(), to, n, at, types.get()); break;
    case Call::neighbor_alltoallw:
      GC_BEGIN(Ineighbor_alltoallw, Neighbor_alltoallw, n, far_places.get(), types.get(), to, n, far_places.get(),
               types.get());
      break;
    case Call::neighbor_allgatherv:
      GC_BEGIN(Ineighbor_allgatherv, Neighbor_allgatherv, kCount, MPI_INT, to, n, at, MPI_INT);
      break;
    case Call::reduce_scatter: GC_BEGIN(Ireduce_scatter, Reduce_scatter, to, n, MPI_INT, MPI_SUM); break;
  }
#undef GC_BEGIN
}

int expected(Call call, int index) {
  const int from = index / kCount, i = index % kCount;
  if (call == Call::neighbor_allgatherv) return value(from, 0, i);
  if (call != Call::reduce_scatter) return value(from, g_rank, i);
  if (from > 0) return -1;  // not written
  int sum = 0;
  for (int r = 0; r < g_size; r++) sum += value(r, g_rank, i);
  return sum;
}

void check(Call call, const Buffers& b, const char* what) {
  std::vector<int> got(z(g_size * kCount));
  b.recv.read(got.data());
  for (int i = 0; i < g_size * kCount; i++)
    if (!checked(got[z(i)] == expected(call, i)))
      return fail("call %d, %s: %d at %d, not %d", static_cast<int>(call), what, got[z(i)], i, expected(call, i));
}

// All calls at once behind one for which the last rank comes late.
void round_of(bool persistent, Where where, MPI_Comm graph, const char* what) {
  constexpr int kCallsAtOnce = sizeof kCalls / sizeof *kCalls;
  const size_t bytes = z(g_size * kCount) * sizeof(int);
  std::vector<int> input(z(g_size * kCount)), none(z(g_size * kCount), -1);
  for (int i = 0; i < g_size * kCount; i++) input[z(i)] = value(g_rank, i / kCount, i % kCount);
  std::vector<std::unique_ptr<Buffers>> buffers;
  MPI_Request requests[kCallsAtOnce + 1];
  Memory first(where == Where::host ? Where::host : Where::device, sizeof(int));
  int one = 1;
  first.write(&one);
  if (g_rank == g_size - 1) usleep(3000);
  MPI_Iallreduce(MPI_IN_PLACE, first.at(0), 1, MPI_INT, MPI_SUM, graph, &requests[kCallsAtOnce]);
  for (int c = 0; c < kCallsAtOnce; c++) {
    buffers.emplace_back(new Buffers{{where, bytes}, {where, bytes}});
    buffers.back()->send.write(input.data());
    buffers.back()->recv.write(none.data());
    begin(kCalls[c], persistent, *buffers.back(), graph, &requests[c]);
  }
  if (persistent) MPI_Startall(kCallsAtOnce, requests);
  MPI_Waitall(kCallsAtOnce + 1, requests, MPI_STATUSES_IGNORE);
  for (int c = 0; c < kCallsAtOnce; c++) {
    check(kCalls[c], *buffers[z(c)], what);
    if (persistent) MPI_Request_free(&requests[c]);
  }
}

MPI_Comm all_to_all_graph() {
  std::vector<int> all(z(g_size));
  for (int r = 0; r < g_size; r++) all[z(r)] = r;
  MPI_Comm graph = MPI_COMM_NULL;
  MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, g_size, all.data(), MPI_UNWEIGHTED, g_size, all.data(), MPI_UNWEIGHTED,
                                 MPI_INFO_NULL, 0, &graph);
  return graph;
}

}  // namespace

int main(int argc, char** argv) {
  Mpi mpi(argc, argv);
  use_own_device();
  for (int round = 0; round < kRounds; round++) {
    MPI_Comm graph = all_to_all_graph();
    for (const bool persistent : {false, true}) {
      round_of(persistent, g_rank == 0 ? Where::device : Where::host, graph, "host memory on some ranks");
      round_of(persistent, Where::device, graph, "device memory");
      Memory device(Where::device, sizeof(int));
      MPI_Request busy = MPI_REQUEST_NULL;
      const int one = 1;
      device.write(&one);
      if (g_rank == g_size - 1) usleep(3000);
      MPI_Iallreduce(MPI_IN_PLACE, device.at(0), 1, MPI_INT, MPI_SUM, graph, &busy);
      round_of(persistent, Where::host, graph, "host memory behind device memory");
      MPI_Wait(&busy, MPI_STATUS_IGNORE);
    }
    MPI_Comm_free(&graph);
  }
  return mpi.finish("freed_arrays");
}
