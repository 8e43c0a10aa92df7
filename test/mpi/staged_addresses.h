// Staged calls whose data lie far apart: behind large displacements, at absolute addresses, in several allocations, and
// in host and device memory at once.
//
// Thread safety: none. Ownership: none.
#pragma once
#include <memory>
#include <vector>

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

// One type that leads to host and to device memory, in either order and in many pieces: mmap'd host memory is not far
// from the emulated device's.
inline void mixed_addresses(bool host_first, int pieces) {
  constexpr size_t kInts = 1 << 20;
  Memory device(Where::device, kInts * sizeof(int));
  std::vector<int> host(kInts, -1), copy(kInts, -1);
  for (size_t i = 0; g_rank == 0 && i < kInts; i++) host[i] = copy[i] = static_cast<int>(i) + pieces;
  device.write(copy.data());
  std::vector<MPI_Aint> at(static_cast<size_t>(2 * pieces));
  for (int p = 0; p < 2 * pieces; p++) {
    const ptrdiff_t offset = 40 * (p / 2) + 4;
    const bool on_host = (p % 2 == 0) == host_first;
    const void* address = on_host ? static_cast<const void*>(reinterpret_cast<char*>(host.data()) + offset)
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
