// Times of collectives on types with gaps in device memory, beside the same data without gaps, and beside what a
// program does without gpucoll: the whole buffer copied to the host, MPI there, and copied back. usage: bench_types
// [MOST_BYTES]
//
// Run it under mpirun, a rank for each GPU. Prints one line for each function, type and size: microseconds, the slowest
// rank's mean.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "../mpi/mpi_test.h"

namespace {
using namespace mpi_test;

struct Type {
  std::string name;
  MPI_Datatype type;
  size_t bytes, extent;  // of an element
};

Type vector_of(int block, int stride, int count) {
  MPI_Datatype type;
  MPI_Type_vector(count, block, stride, MPI_BYTE, &type);
  MPI_Type_commit(&type);
  const auto n = static_cast<size_t>(count);
  return {"vector of " + std::to_string(block) + " in " + std::to_string(stride) + " bytes", type,
          static_cast<size_t>(block) * n, static_cast<size_t>(stride) * (n - 1) + static_cast<size_t>(block)};
}

// Structs with so many bytes of data, and padding behind.
Type structs_of(int bytes, int extent, int count) {
  MPI_Datatype data, element, type;
  MPI_Type_contiguous(bytes, MPI_BYTE, &data);
  MPI_Type_create_resized(data, 0, extent, &element);
  MPI_Type_contiguous(count, element, &type);
  MPI_Type_commit(&type);
  MPI_Type_free(&element);
  MPI_Type_free(&data);
  const auto n = static_cast<size_t>(count);
  return {"structs of " + std::to_string(bytes) + " in " + std::to_string(extent) + " bytes", type,
          static_cast<size_t>(bytes) * n, static_cast<size_t>(extent) * n};
}

// A face of a cube of doubles: the one whose runs are shortest.
Type face(int side) {
  const int sizes[] = {side, side, side}, parts[] = {side, side, 1}, starts[] = {0, 0, 0};
  MPI_Datatype type;
  MPI_Type_create_subarray(3, sizes, parts, starts, MPI_ORDER_C, MPI_DOUBLE, &type);
  MPI_Type_commit(&type);
  const auto n = static_cast<size_t>(side);
  return {"face of a cube of doubles", type, n * n * 8, n * n * n * 8};
}

// Blocks of one to three doubles, here and there.
Type indexed(int count) {
  std::vector<int> lengths, places;
  size_t doubles = 0;
  for (int i = 0; i < count; ++i) {
    lengths.push_back(1 + static_cast<int>(mix(static_cast<uint64_t>(i)) % 3));
    places.push_back(4 * i);
    doubles += static_cast<size_t>(lengths.back());
  }
  MPI_Datatype type;
  MPI_Type_indexed(count, lengths.data(), places.data(), MPI_DOUBLE, &type);
  MPI_Type_commit(&type);
  return {"indexed, 1 to 3 doubles", type, doubles * 8, static_cast<size_t>(count) * 32};
}

Type plain(size_t bytes) { return {"no gaps", MPI_BYTE, 1, bytes}; }

// ---- one measurement ----

struct Case {
  const char* name;
  bool all_send, all_receive;  // blocks for each rank
  std::function<int(void* send, void* recv, int count, MPI_Datatype type)> call;
};

const Case kCases[] = {
    {"bcast", false, false,
     [](void* send, void*, int n, MPI_Datatype t) { return MPI_Bcast(send, n, t, 0, MPI_COMM_WORLD); }},
    {"allgather", false, true,
     [](void* s, void* r, int n, MPI_Datatype t) { return MPI_Allgather(s, n, t, r, n, t, MPI_COMM_WORLD); }},
    {"alltoall", true, true,
     [](void* s, void* r, int n, MPI_Datatype t) { return MPI_Alltoall(s, n, t, r, n, t, MPI_COMM_WORLD); }},
};

// The slowest rank's mean, in microseconds.
double time_of(const std::function<void()>& call) {
  constexpr int kWarm = 3, kLeast = 5;
  constexpr double kLong = 0.2;
  double spent = 0, mean = 0;
  for (int i = 0; i < kWarm; ++i) call();
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  int calls = 0;
  for (int more = 1; more; ++calls) {
    call();
    more = calls < kLeast || (MPI_Wtime() - start < kLong && calls < 1000);
    if (calls >= kLeast) MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
  }
  spent = (MPI_Wtime() - start) / calls * 1e6;
  MPI_Allreduce(&spent, &mean, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return mean;
}

void measure(const Case& test, const Type& type, int count) {
  const size_t block = type.type == MPI_BYTE ? type.extent : type.extent * static_cast<size_t>(count);
  const auto n = static_cast<size_t>(g_size);
  Memory send(Where::device, test.all_send ? n * block : block), recv(Where::device, test.all_receive ? n * block : 1);
  std::vector<char> host_send(send.bytes(), 1), host_recv(recv.bytes(), 1);
  const int elements = type.type == MPI_BYTE ? static_cast<int>(block) : count;
  const size_t bytes = static_cast<size_t>(elements) * type.bytes;
  send.write(host_send.data());
  recv.write(host_recv.data());
  const double device = time_of([&] { test.call(send.at(0), recv.at(0), elements, type.type); });
  const double staged = time_of([&] {
    send.read(host_send.data());
    test.call(host_send.data(), host_recv.data(), elements, type.type);
    if (recv.bytes() > 1)
      recv.write(host_recv.data());
    else
      send.write(host_send.data());
  });
  if (g_rank == 0)
    std::printf("%-10s %-28s %10zu bytes %10.1f us, through the host %10.1f us\n", test.name, type.name.c_str(), bytes,
                device, staged);
}

}  // namespace

int main(int argc, char** argv) {
  Mpi mpi(argc, argv);
  const size_t most = argc > 1 ? std::strtoull(argv[1], nullptr, 0) : size_t{16} << 20;
  int devices = 1;
  need(gpucollDeviceCount(&devices), "gpucollDeviceCount");
  need(gpucollSetDevice(g_rank % devices), "gpucollSetDevice");
  checked(true);
  for (size_t bytes = 1024; bytes <= most; bytes *= 16) {
    const int side = bytes <= 1024 ? 11 : bytes <= 16384 ? 45 : bytes <= 262144 ? 128 : 181;
    std::vector<Type> types = {
        plain(bytes), vector_of(8, 16, static_cast<int>(bytes / 8)), vector_of(256, 512, static_cast<int>(bytes / 256)),
        face(side),   indexed(static_cast<int>(bytes / 16)),         structs_of(21, 32, static_cast<int>(bytes / 21))};
    for (const Case& test : kCases)
      for (const Type& type : types) measure(test, type, 1);
    for (Type& type : types)
      if (type.type != MPI_BYTE) MPI_Type_free(&type.type);
  }
  return mpi.finish("bench_types");
}
