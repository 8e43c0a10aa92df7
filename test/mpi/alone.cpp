// Communicators of one rank: whatever it reduces or moves is a copy on its device, for every type and operation, with
// host memory on one side as well, in all three forms; and nothing at all in place.
#include <unistd.h>

#include "abi/abi.h"
#include "call_form.h"

using namespace mpi_test;

namespace {

constexpr int kCount = 4200, kGuard = 3;  // long doubles: more than 64 KiB

// Two ints of each four are data.
constexpr int kExtent = 16;
bool is_data(size_t byte) { return byte % 8 < 4; }

struct Type {
  const char* name;
  MPI_Datatype type;
  MPI_Op op;
  bool gaps;
};

void compose(void*, void*, int*, MPI_Datatype*) { fail("one rank has nothing to compose"); }

uint64_t runs() { return gpucoll_abi(GC_ABI_VERSION)->runs(); }
uint64_t launches() { return gpucoll_abi(GC_ABI_VERSION)->launches(); }

enum class Function {
  allreduce,
  reduce,
  scan,
  exscan,
  reduce_scatter,
  reduce_scatter_block,
  allgather,
  allgatherv,
  alltoall,
  alltoallv,
  alltoallw,
  gather,
  gatherv,
  scatter,
  scatterv,
  end
};
const char* const kNames[] = {"allreduce", "reduce",    "scan",       "exscan",   "reduce_scatter",
                              "..._block", "allgather", "allgatherv", "alltoall", "alltoallv",
                              "alltoallw", "gather",    "gatherv",    "scatter",  "scatterv"};

int call(Function function, Form form, MPI_Comm comm, const Type& t, const void* send, void* recv) {
  static const int counts[1] = {kCount}, places[1] = {0};
  static MPI_Datatype types[1];
  types[0] = t.type;
  MPI_Request request = MPI_REQUEST_NULL;
  const MPI_Datatype d = t.type;
  const bool scatters = function == Function::scatter || function == Function::scatterv;
  if (scatters && send == MPI_IN_PLACE) {
    send = recv;
    recv = MPI_IN_PLACE;
  }
#define GC_CALL(...) GC_CALL_IN_FORM(form, comm, __VA_ARGS__)
  switch (function) {
    case Function::allreduce: return GC_CALL(Allreduce, allreduce, send, recv, kCount, d, t.op);
    case Function::reduce: return GC_CALL(Reduce, reduce, send, recv, kCount, d, t.op, 0);
    case Function::scan: return GC_CALL(Scan, scan, send, recv, kCount, d, t.op);
    case Function::exscan: return GC_CALL(Exscan, exscan, send, recv, kCount, d, t.op);
    case Function::reduce_scatter: return GC_CALL(Reduce_scatter, reduce_scatter, send, recv, counts, d, t.op);
    case Function::reduce_scatter_block:
      return GC_CALL(Reduce_scatter_block, reduce_scatter_block, send, recv, kCount, d, t.op);
    case Function::allgather: return GC_CALL(Allgather, allgather, send, kCount, d, recv, kCount, d);
    case Function::allgatherv: return GC_CALL(Allgatherv, allgatherv, send, kCount, d, recv, counts, places, d);
    case Function::alltoall: return GC_CALL(Alltoall, alltoall, send, kCount, d, recv, kCount, d);
    case Function::alltoallv: return GC_CALL(Alltoallv, alltoallv, send, counts, places, d, recv, counts, places, d);
    case Function::alltoallw:
      return GC_CALL(Alltoallw, alltoallw, send, counts, places, types, recv, counts, places, types);
    case Function::gather: return GC_CALL(Gather, gather, send, kCount, d, recv, kCount, d, 0);
    case Function::gatherv: return GC_CALL(Gatherv, gatherv, send, kCount, d, recv, counts, places, d, 0);
    case Function::scatter: return GC_CALL(Scatter, scatter, send, kCount, d, recv, kCount, d, 0);
    default: return GC_CALL(Scatterv, scatterv, send, counts, places, d, recv, kCount, d, 0);
  }
}

std::vector<uint8_t> random_bytes(uint64_t seed) {
  std::vector<uint8_t> bytes((kCount + kGuard) * kExtent);
  for (size_t i = 0; i < bytes.size(); i++) bytes[i] = static_cast<uint8_t>(mix(seed, i));
  return bytes;
}

void check(Function function, Form form, MPI_Comm comm, const Type& type, Where from, Where to, bool in_place) {
  const std::string name = std::string(name_of(form)) + kNames[static_cast<int>(function)] + " of " + type.name +
                           " from " + name_of(from) + " to " + name_of(to) + (in_place ? ", in place" : "");
  const std::vector<uint8_t> in = random_bytes(1);
  std::vector<uint8_t> expected = random_bytes(2), got(expected.size());
  Memory send(from, in.size()), recv(to, expected.size());
  send.write(in.data());
  recv.write(expected.data());
  int element = 0;
  MPI_Type_size(type.type, &element);
  const size_t end = kCount * static_cast<size_t>(type.gaps ? kExtent : element);
  for (size_t i = 0; i < end && !in_place && function != Function::exscan; i++)
    if (!type.gaps || is_data(i)) expected[i] = in[i];
  const uint64_t ran = runs(), launched = launches();
  const int rc = call(function, form, comm, type, in_place ? MPI_IN_PLACE : send.at(0), recv.at(0));
  if (!checked(rc == MPI_SUCCESS)) fail("%s: error %d", name.c_str(), rc);
  const bool device = (!in_place && from == Where::device) || (function != Function::exscan && to == Where::device);
  if (!checked(runs() - ran == (device || (in_place && to == Where::device))))
    fail("%s: ran %d times on the device", name.c_str(), static_cast<int>(runs() - ran));
  if (in_place && !checked(launches() == launched)) fail("%s: launches for nothing", name.c_str());
  recv.read(got.data());
  if (!checked(got == expected)) fail("%s: the result is wrong", name.c_str());
  send.read(got.data());
  if (!checked(got == in)) fail("%s: the send buffer has changed", name.c_str());
}

void check_all(MPI_Comm comm, const std::vector<Type>& types) {
  for (const Type& type : types)
    for (int f = 0; f < static_cast<int>(Function::end); f++)
      for (Form form : kForms) {
        const auto function = static_cast<Function>(f);
        check(function, form, comm, type, Where::device, Where::device, false);
        check(function, form, comm, type, Where::device, Where::device, true);
        check(function, form, comm, type, Where::device, Where::host, false);
        check(function, form, comm, type, Where::host, Where::device, false);
        check(function, form, comm, type, Where::host, Where::host, false);
      }
}

long resident_kb() {
  long pages = 0;
  if (FILE* file = std::fopen("/proc/self/statm", "re")) {
    if (std::fscanf(file, "%*d %ld", &pages) != 1) pages = 0;
    std::fclose(file);
  }
  return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

// Libraries duplicate MPI_COMM_SELF for each of their objects.
void many() {
  constexpr size_t kMany = 2000, kUsed = 100;
  Memory in(Where::device, sizeof(int)), out(Where::device, sizeof(int)), host(Where::host, sizeof(int));
  std::vector<MPI_Comm> comms(kMany);
  const long before = resident_kb();
  for (MPI_Comm& comm : comms) {
    MPI_Comm_dup(MPI_COMM_SELF, &comm);
    MPI_Allreduce(MPI_IN_PLACE, host.at(0), 1, MPI_INT, MPI_SUM, comm);
  }
  const long made = resident_kb();
  const double start = MPI_Wtime();
  for (size_t i = 0; i < kUsed; i++) {
    const int value = static_cast<int>(mix(3, i));
    in.write(&value);
    MPI_Allreduce(in.at(0), out.at(0), 1, MPI_INT, MPI_SUM, comms[i]);
    int got = 0;
    out.read(&got);
    if (!checked(got == value)) fail("copy %zu of MPI_COMM_SELF: %d instead of %d", i, got, value);
  }
  if (g_rank == 0)
    std::printf("a copy of MPI_COMM_SELF takes %.1f kB, its first call %.1f kB more and %.0f us\n",
                static_cast<double>(made - before) / kMany, static_cast<double>(resident_kb() - made) / kUsed,
                1e6 * (MPI_Wtime() - start) / kUsed);
  for (MPI_Comm& comm : comms) MPI_Comm_free(&comm);
}

}  // namespace

int main(int argc, char** argv) {
  Mpi mpi(argc, argv);
  use_own_device();
  MPI_Datatype vector, gaps;
  MPI_Type_vector(2, 1, 2, MPI_INT, &vector);
  MPI_Type_create_resized(vector, 0, kExtent, &gaps);
  MPI_Type_commit(&gaps);
  MPI_Op op;
  MPI_Op_create(compose, 1, &op);
  const std::vector<Type> types = {{"int", MPI_INT, MPI_SUM, false},
                                   {"long double", MPI_LONG_DOUBLE, MPI_SUM, false},
                                   {"vector, by a user's operation", gaps, op, true}};
  MPI_Comm own;
  MPI_Comm_split(MPI_COMM_WORLD, g_rank, 0, &own);
  check_all(MPI_COMM_SELF, types);
  check_all(own, types);
  MPI_Comm_free(&own);
  many();
  MPI_Op_free(&op);
  MPI_Type_free(&gaps);
  MPI_Type_free(&vector);
  return mpi.finish("alone");
}
