// Staged calls whose data lie far apart: behind large displacements, at absolute addresses, in several allocations, and
// in host and device memory at once.
//
// Thread safety: none. Ownership: none.
#pragma once
#include <sys/mman.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "abi/abi.h"
#include "mpi_test.h"

namespace staged {
using namespace mpi_test;

// Displacements beyond 2 GiB: only the pages that are used exist.
inline void far_gatherv() {
  constexpr int kFar = 300'000'000;  // doubles
  int counts[2] = {2, 2};
  int places[2] = {kFar, 0};
  if (g_size != 2) return;
  Memory send(Where::device, 16), recv(Where::device, g_rank == 0 ? 8 * size_t{kFar} + 16 : 16);
  const double mine[2] = {g_rank + 0.5, g_rank + 0.25};
  send.write(mine);
  MPI_Gatherv(send.at(0), 2, MPI_DOUBLE, recv.at(0), counts, places, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  if (g_rank != 0) return;
  double near[2], far[2];
  need(gpucollMemcpy(near, recv.at(0), 16), "gpucollMemcpy");
  need(gpucollMemcpy(far, recv.at(8 * ptrdiff_t{kFar}), 16), "gpucollMemcpy");
  if (!checked(near[0] == 1.5 && near[1] == 1.25))
    fail("gatherv beyond 2 GiB: rank 1's part is %g %g", near[0], near[1]);
  if (!checked(far[0] == 0.5 && far[1] == 0.25)) fail("gatherv beyond 2 GiB: rank 0's part is %g %g", far[0], far[1]);
}

// Displacements by which the addresses that stand for both buffers in host memory may become one, which Open MPI's
// nonblocking collectives would take for MPI_IN_PLACE: where that is depends on where the host memory lies.
inline void far_displacements() {
  constexpr ptrdiff_t kFar = 8 << 20, kPage = 4096;
  Memory send(Where::device, sizeof(int)), recv(Where::device, 2 * kFar);
  const int one = 1, none = 0;
  for (ptrdiff_t at = -kFar; at < kFar; at += kPage) {
    const int mine = static_cast<int>(at) + g_rank, place = static_cast<int>(at / ptrdiff_t{sizeof(int)});
    int got = -1;
    send.write(&mine);
    need(gpucollMemcpy(recv.at(kFar + at), &got, sizeof got), "gpucollMemcpy");
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Ialltoallv(send.at(0), &one, &none, MPI_INT, recv.at(kFar), &one, &place, MPI_INT, MPI_COMM_SELF, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    need(gpucollMemcpy(&got, recv.at(kFar + at), sizeof got), "gpucollMemcpy");
    if (!checked(got == mine)) fail("ialltoallv to a displacement of %td bytes: %d instead of %d", at, got, mine);
  }
}

// MPI_BOTTOM: the addresses are in the type alone.
inline void absolute_addresses() {
  std::vector<int> values(8, g_rank);
  if (g_rank == 0) values = {10, 11, 12, 13, 14, 15, 16, 17};
  Memory memory(Where::device, values.size() * sizeof(int));
  memory.write(values.data());
  MPI_Aint at[2];
  const int lengths[2] = {3, 2};
  MPI_Get_address(memory.at(4), &at[0]);
  MPI_Get_address(memory.at(24), &at[1]);
  MPI_Datatype type;
  MPI_Type_create_hindexed(2, lengths, at, MPI_INT, &type);
  MPI_Type_commit(&type);
  MPI_Bcast(MPI_BOTTOM, 1, type, 0, MPI_COMM_WORLD);
  memory.read(values.data());
  for (int i = 0; i < 8; i++) {
    const int expected = g_rank == 0 || (i != 0 && i != 4 && i != 5) ? 10 + i : g_rank;
    const int got = values[static_cast<size_t>(i)];
    if (!checked(got == expected)) fail("bcast from MPI_BOTTOM: element %d is %d instead of %d", i, got, expected);
  }
  MPI_Type_free(&type);
}

// Leaves no room of more than 4 TiB in the address space, where it can.
inline void crowd_address_space() {
  constexpr uintptr_t kApart = uintptr_t{1} << 42, kEnd = uintptr_t{1} << 47;
  for (uintptr_t at = kApart; at < kEnd; at += kApart)
    mmap(reinterpret_cast<void*>(at), 1, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
}

// One type that leads to host and to device memory, in either order and in many pieces. The program's own memory is
// tens of TiB away from that of a device.
inline void mixed_addresses(bool host_first, int pieces) {
  constexpr size_t kInts = 1 << 20;
  static int host[kInts];
  Memory device(Where::device, kInts * sizeof(int));
  std::vector<int> copy(kInts, -1);
  std::fill(std::begin(host), std::end(host), -1);
  for (size_t i = 0; g_rank == 0 && i < kInts; i++) host[i] = copy[i] = static_cast<int>(i) + pieces;
  device.write(copy.data());
  std::vector<MPI_Aint> at(static_cast<size_t>(2 * pieces));
  for (int p = 0; p < 2 * pieces; p++) {
    const ptrdiff_t offset = 40 * (p / 2) + 4;
    const bool on_host = (p % 2 == 0) == host_first;
    const void* address = on_host ? static_cast<const void*>(reinterpret_cast<char*>(host) + offset)
                                  : static_cast<const void*>(device.at(offset));
    MPI_Get_address(address, &at[static_cast<size_t>(p)]);
  }
  MPI_Datatype type;
  MPI_Type_create_hindexed_block(2 * pieces, 7, at.data(), MPI_INT, &type);
  MPI_Type_commit(&type);
  MPI_Request request;
  MPI_Bcast(MPI_BOTTOM, 1, type, 0, MPI_COMM_WORLD);
  MPI_Ibcast(MPI_BOTTOM, 1, type, 0, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  device.read(copy.data());
  for (int i = 0; i < 10 * pieces + 10; i++) {
    const bool sent = i < 10 * pieces && i % 10 >= 1 && i % 10 < 8;
    const int expected = g_rank == 0 || sent ? i + pieces : -1;
    const auto e = static_cast<size_t>(i);
    if (checked(host[e] == expected && copy[e] == expected)) continue;
    return fail("bcast of mixed memory: element %d is %d on the host, %d on the device", i, host[e], copy[e]);
  }
  MPI_Type_free(&type);
}

// A column of a matrix in device memory and an element of the program's own: more pages than a process may have
// mappings.
inline void column_and_program() {
  constexpr int kRows = 66'000;
  constexpr MPI_Aint kRow = 16384;
  static int program;
  Memory memory(Where::device, size_t{kRows} * kRow);
  MPI_Datatype column, both;
  MPI_Type_create_hvector(kRows, 1, kRow, MPI_INT, &column);
  const int ones[2] = {1, 1};
  MPI_Aint at[2];
  MPI_Get_address(memory.at(0), &at[0]);
  MPI_Get_address(&program, &at[1]);
  const MPI_Datatype parts[2] = {column, MPI_INT};
  MPI_Type_create_struct(2, ones, at, parts, &both);
  MPI_Type_commit(&both);
  program = g_rank == 0 ? 7 : -1;
  const int rows[] = {0, 1, 777, kRows - 1};
  const auto place = [&](int row) { return memory.at(ptrdiff_t{row} * kRow); };
  for (int row : rows) {
    const int value = g_rank == 0 ? 5 * row + 3 : -1;
    need(gpucollMemcpy(place(row), &value, sizeof value), "gpucollMemcpy");
  }
  MPI_Bcast(MPI_BOTTOM, 1, both, 0, MPI_COMM_WORLD);
  if (!checked(program == 7)) fail("bcast of a column and the program's memory: that is %d", program);
  for (int row : rows) {
    int value = 0;
    need(gpucollMemcpy(&value, place(row), sizeof value), "gpucollMemcpy");
    if (!checked(value == 5 * row + 3)) fail("bcast of a column and the program's memory: row %d is %d", row, value);
  }
  MPI_Type_free(&column);
  MPI_Type_free(&both);
}

// How many copies between devices and the host there were.
inline uint64_t staged_copies() {
  const gc_abi* const abi = gpucoll_abi(GC_ABI_VERSION);
  const char* name = "";
  for (size_t i = 0; name; i++) {
    name = nullptr;
    const uint64_t counted = abi->counter(i, &name, nullptr);
    if (name && !std::strcmp(name, "staged_copies")) return counted;
  }
  return 0;
}

inline int device_count() {
  int devices = 1;
  need(gpucollDeviceCount(&devices), "gpucollDeviceCount");
  return devices;
}

// Memory on two devices, which this rank's kernels may not reach from one of them: each piece is copied by its own.
class TwoDevices {
 public:
  explicit TwoDevices(int pieces) : pieces_(pieces) {
    for (int d = 0; d < 2; d++) {
      need(gpucollSetDevice((g_rank + d) % device_count()), "gpucollSetDevice");
      memory_.push_back(std::make_unique<Memory>(Where::device, size() * sizeof(int)));
    }
    use_own_device();
    std::vector<MPI_Aint> at(static_cast<size_t>(2 * pieces));
    for (size_t p = 0; p < at.size(); p++)
      MPI_Get_address(memory_[p % 2]->at(static_cast<ptrdiff_t>(p / 2) * 2 * 4), &at[p]);
    MPI_Type_create_hindexed_block(2 * pieces, 1, at.data(), MPI_INT, &type_);
    MPI_Type_commit(&type_);
  }
  ~TwoDevices() { MPI_Type_free(&type_); }
  TwoDevices(const TwoDevices&) = delete;
  TwoDevices& operator=(const TwoDevices&) = delete;

  MPI_Datatype type() const { return type_; }
  void fill(int first) const {
    std::vector<int> values(size());
    for (int d = 0; d < 2; d++) {
      for (size_t i = 0; i < size(); i++) values[i] = first + d + static_cast<int>(i);
      memory_[static_cast<size_t>(d)]->write(values.data());
    }
  }
  // Only every other integer belongs to the type.
  void check(int first, int between, uint64_t copies, const char* what) const {
    std::vector<int> values(size());
    for (int d = 0; d < 2; d++) {
      memory_[static_cast<size_t>(d)]->read(values.data());
      for (size_t i = 0; i < size(); i++) {
        const int expected = (i % 2 == 0 ? first : between) + d + static_cast<int>(i);
        if (!checked(values[i] == expected)) return fail("%s on two devices: %d, not %d", what, values[i], expected);
      }
    }
    if (g_size == 1) return;  // nothing moves in a broadcast
    if (!checked(copies >= static_cast<uint64_t>(2 * pieces_)))
      fail("%s on two devices: %d pieces by %llu copies", what, 2 * pieces_, static_cast<unsigned long long>(copies));
  }

 private:
  size_t size() const { return static_cast<size_t>(2 * pieces_); }
  int pieces_;
  std::vector<std::unique_ptr<Memory>> memory_;
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

inline void two_devices(int pieces) {
  if (device_count() < 2) return;
  const TwoDevices memory(pieces);
  memory.fill(g_rank == 0 ? 1000 : 0);
  uint64_t before = staged_copies();
  MPI_Bcast(MPI_BOTTOM, 1, memory.type(), 0, MPI_COMM_WORLD);
  memory.check(1000, g_rank == 0 ? 1000 : 0, staged_copies() - before, "bcast");
  if (g_size < 2) return;
  memory.fill(g_rank);
  before = staged_copies();
  if (g_rank == 0) MPI_Send(MPI_BOTTOM, 1, memory.type(), 1, 0, MPI_COMM_WORLD);
  if (g_rank == 1) MPI_Recv(MPI_BOTTOM, 1, memory.type(), 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (g_rank < 2) memory.check(0, g_rank, staged_copies() - before, "a message");
}

// As above, with memory of one kind in a block, of the other in the next.
inline void mixed_blocks() {
  const auto n = static_cast<size_t>(g_size);
  constexpr int kInts = 100000;
  std::vector<std::unique_ptr<Memory>> memories;
  std::vector<int> counts(n, 1), places(n, 0), sent(n, kInts), from(n, 0), values(kInts, g_rank);
  std::vector<MPI_Datatype> types(n), ints(n, MPI_INT);
  for (int r = 0; r < g_size; r++) {
    memories.push_back(std::make_unique<Memory>(r % 2 == 0 ? Where::host : Where::device, kInts * sizeof(int)));
    MPI_Aint at;
    MPI_Get_address(memories.back()->at(0), &at);
    MPI_Type_create_hindexed_block(1, kInts, &at, MPI_INT, &types[static_cast<size_t>(r)]);
    MPI_Type_commit(&types[static_cast<size_t>(r)]);
  }
  Memory send(Where::device, kInts * sizeof(int));
  send.write(values.data());
  MPI_Alltoallw(send.at(0), sent.data(), from.data(), ints.data(), MPI_BOTTOM, counts.data(), places.data(),
                types.data(), MPI_COMM_WORLD);
  for (int r = 0; r < g_size; r++) {
    memories[static_cast<size_t>(r)]->read(values.data());
    if (!checked(values.front() == r && values.back() == r)) fail("alltoallw into mixed memory: rank %d's is wrong", r);
    MPI_Type_free(&types[static_cast<size_t>(r)]);
  }
}

// All columns of one matrix received at once: storing one may not touch the other.
inline void interleaved_columns() {
  enum { kRows = 40, kColumns = 8 };
  MPI_Datatype column;
  MPI_Type_vector(kRows, 1, kColumns, MPI_INT, &column);
  MPI_Type_commit(&column);
  std::vector<int> matrix(kRows * kColumns, g_rank);
  Memory device(Where::device, matrix.size() * sizeof(int));
  if (g_rank == 0) {
    for (size_t i = 0; i < matrix.size(); i++) matrix[i] = static_cast<int>(i) + 1000;
  }
  device.write(matrix.data());
  MPI_Request requests[kColumns];
  for (int c = 0; c < kColumns; c++) MPI_Ibcast(device.as<int>() + c, 1, column, 0, MPI_COMM_WORLD, &requests[c]);
  MPI_Waitall(kColumns, requests, MPI_STATUSES_IGNORE);
  device.read(matrix.data());
  for (size_t i = 0; i < matrix.size(); i++) {
    if (!checked(matrix[i] == static_cast<int>(i) + 1000)) fail("columns by ibcast: element %zu is %d", i, matrix[i]);
  }
  MPI_Type_free(&column);
}

}  // namespace staged
