// Makes the same slow call a hundred times, for test/mpi/causes.sh, which counts what the log says of it.
// usage: causes CASE
#include <memory>

#include "mpi_test.h"

namespace {
using namespace mpi_test;

constexpr int kCalls = 100, kCount = 100;
const MPI_Comm kWorld = MPI_COMM_WORLD;

void expect(int rc, const char* what) {
  if (!checked(rc == MPI_SUCCESS)) fail("%s has failed: %d", what, rc);
}

void reduce(void* memory, MPI_Op op = MPI_SUM, int count = kCount) {
  for (int i = 0; i < kCalls; ++i)
    expect(MPI_Allreduce(MPI_IN_PLACE, memory, count, MPI_INT, op, kWorld), "MPI_Allreduce");
}

void fast() {
  Memory memory(Where::device, 4 * kCount);
  reduce(memory.at(0));
}

void add(void* from, void* to, int* count, MPI_Datatype*) {
  for (int i = 0; i < *count; ++i) static_cast<int*>(to)[i] += static_cast<int*>(from)[i];
}

void user_operation() {
  Memory memory(Where::device, 4 * kCount);
  MPI_Op op;
  MPI_Op_create(add, 1, &op);
  reduce(memory.at(0), op);
  MPI_Op_free(&op);
}

void nonblocking_operation() {
  Memory memory(Where::device, 4 * kCount);
  MPI_Op op;
  MPI_Op_create(add, 1, &op);
  for (int i = 0; i < kCalls; ++i) {
    MPI_Request request;
    expect(MPI_Iallreduce(MPI_IN_PLACE, memory.at(0), kCount, MPI_INT, op, kWorld, &request), "MPI_Iallreduce");
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  MPI_Op_free(&op);
}

void misaligned() {
  Memory memory(Where::device, 4 * kCount + 4);
  reduce(memory.at(1));
}

// Rank 1 is told that another rank cannot.
void misaligned_on_one() {
  Memory memory(Where::device, 4 * kCount + 4);
  reduce(memory.at(g_rank == 0 ? 1 : 0));
}

void several_devices() {
  int devices = 1;
  need(gpucollDeviceCount(&devices), "gpucollDeviceCount");
  Memory send(Where::device, 4 * kCount);
  need(gpucollSetDevice((g_rank + 1) % devices), "gpucollSetDevice");
  Memory recv(Where::device, 4 * kCount);
  use_own_device();
  for (int i = 0; i < kCalls; ++i)
    expect(MPI_Allreduce(send.at(0), recv.at(0), kCount, MPI_INT, MPI_SUM, kWorld), "MPI_Allreduce");
}

// Gives a type of which one integer is device memory, and one host memory.
MPI_Datatype mixed_type(const Memory& device, const Memory& host) {
  MPI_Datatype type;
  MPI_Aint places[2];
  MPI_Get_address(device.at(0), &places[0]);
  MPI_Get_address(host.at(0), &places[1]);
  MPI_Type_create_hindexed_block(2, 1, places, MPI_INT, &type);
  MPI_Type_commit(&type);
  return type;
}

// With pinned_bytes 64K.
void pinned_bytes() {
  constexpr int kMany = 1 << 18;
  Memory send(Where::host, 4 * kMany), recv(Where::device, 4 * kMany);
  std::memset(send.at(0), 0, send.bytes());
  for (int i = 0; i < kCalls; ++i)
    expect(MPI_Allreduce(send.at(0), recv.at(0), kMany, MPI_INT, MPI_SUM, kWorld), "MPI_Allreduce");
}

// A large call from and into memory that only this process opens, or between devices that do not reach each other.
void large() {
  constexpr int kMany = 1 << 16;
  Memory memory(Where::device, 4 * kMany);
  reduce(memory.at(0), MPI_SUM, kMany);
}

void message_of(void* memory, int count, MPI_Datatype type, bool buffered = false) {
  for (int i = 0; i < kCalls; ++i) {
    // An answer each time: the receiver is known to use its device, and no place runs out.
    if (g_rank == 1) {
      expect(MPI_Recv(memory, count, type, 0, 1, kWorld, MPI_STATUS_IGNORE), "MPI_Recv");
      expect(MPI_Send(nullptr, 0, MPI_INT, 0, 2, kWorld), "MPI_Send");
    } else if (g_rank == 0) {
      expect((buffered ? MPI_Bsend : MPI_Send)(memory, count, type, 1, 1, kWorld), "MPI_Send");
      expect(MPI_Recv(nullptr, 0, MPI_INT, 1, 2, kWorld, MPI_STATUS_IGNORE), "MPI_Recv");
    }
  }
}

// Lets both processes show that they use devices in messages.
void warm_up() {
  Memory memory(Where::device, 4096);
  const int other = 1 - g_rank;
  for (int i = 0; i < 4; ++i)
    expect(MPI_Sendrecv(memory.at(0), 100, MPI_INT, other, 0, memory.at(2048), 100, MPI_INT, other, 0, kWorld,
                        MPI_STATUS_IGNORE),
           "MPI_Sendrecv");
}

void fast_message() {
  warm_up();
  Memory memory(Where::device, 4 << 16);
  message_of(memory.at(0), 1 << 16, MPI_INT);
  message_of(memory.at(0), 4, MPI_INT);
}

void tiny_message() {
  warm_up();
  Memory memory(Where::device, 4);
  message_of(memory.at(0), 1, MPI_INT);
}

void large_message() {
  Memory memory(Where::device, 4 << 16);
  message_of(memory.at(0), 1 << 16, MPI_INT);
}

void buffered_message() {
  warm_up();
  Memory memory(Where::device, 4 << 16);
  std::vector<char> room((4 << 16) * 2 + MPI_BSEND_OVERHEAD);
  MPI_Buffer_attach(room.data(), static_cast<int>(room.size()));
  message_of(memory.at(0), 1 << 16, MPI_INT, true);
  void* detached;
  int bytes;
  MPI_Buffer_detach(&detached, &bytes);
}

void partly_host_message() {
  warm_up();
  Memory device(Where::device, 4), host(Where::host, 4);
  MPI_Datatype type = mixed_type(device, host);
  message_of(MPI_BOTTOM, 1, type);
  MPI_Type_free(&type);
}

struct Case {
  const char* name;
  void (*run)();
};
constexpr Case kCases[] = {{"fast", fast},
                           {"user_operation", user_operation},
                           {"nonblocking_operation", nonblocking_operation},
                           {"misaligned", misaligned},
                           {"misaligned_on_one", misaligned_on_one},
                           {"several_devices", several_devices},
                           {"pinned_bytes", pinned_bytes},
                           {"large", large},
                           {"fast_message", fast_message},
                           {"tiny_message", tiny_message},
                           {"large_message", large_message},
                           {"buffered_message", buffered_message},
                           {"partly_host_message", partly_host_message}};

}  // namespace

int main(int argc, char** argv) {
  Mpi mpi(argc, argv);
  use_own_device();
  for (const Case& each : kCases)
    if (argc > 1 && !std::strcmp(argv[1], each.name)) each.run();
  return mpi.finish("causes");
}
