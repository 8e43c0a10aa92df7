// MPI_THREAD_MULTIPLE: threads of every rank, each with a communicator of its own, reduce device memory at the same
// time, staged collectives, nonblocking and persistent ones in between.
//
// threads [NUMBER]   so many of them, else 2
// threads freeing    instead, one thread frees device memory all the time while another makes blocking collectives
#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>

#include "mpi_test.h"

namespace {
using namespace mpi_test;

constexpr int kRounds = 60, kCount = 3001;

// One reduction, in a way that all ranks draw alike.
void reduce(int way, const Memory& send, const Memory& recv, MPI_Request* made, MPI_Comm comm) {
  switch (way) {
    case 0: MPI_Allreduce(send.at(0), recv.at(0), kCount, MPI_INT, MPI_SUM, comm); return;
    case 1:
      MPI_Reduce(send.at(0), recv.at(0), kCount, MPI_INT, MPI_SUM, 0, comm);
      MPI_Bcast(recv.at(0), kCount, MPI_INT, 0, comm);
      return;
    case 2: {
      MPI_Request request;
      MPI_Iallreduce(send.at(0), recv.at(0), kCount, MPI_INT, MPI_SUM, comm, &request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      return;
    }
    default: MPI_Start(made); MPI_Wait(made, MPI_STATUS_IGNORE);
  }
}

void work(MPI_Comm comm, int thread) {
  use_own_device();
  Memory send(Where::device, kCount * sizeof(int)), recv(Where::device, kCount * sizeof(int));
  std::vector<int> in(kCount), out(kCount);
  MPI_Request made;
  GC_INIT(Allreduce)(send.at(0), recv.at(0), kCount, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &made);
  for (int round = 0; round < kRounds; round++) {
    for (int i = 0; i < kCount; i++) in[static_cast<size_t>(i)] = (g_rank + 1) * (i % 97) + thread * 7 + round;
    send.write(in.data());
    reduce((thread + round) % 4, send, recv, &made, comm);
    recv.read(out.data());
    for (int i = 0; i < kCount; i++) {
      const int expected = g_size * (g_size + 1) / 2 * (i % 97) + g_size * (thread * 7 + round);
      if (checked(out[static_cast<size_t>(i)] == expected)) continue;
      fail("thread %d, round %d: element %d is %d instead of %d", thread, round, i, out[static_cast<size_t>(i)],
           expected);
      break;
    }
  }
  MPI_Request_free(&made);
}

// Blocking collectives, whose results it checks.
void gather_and_broadcast(int round) {
  const auto n = static_cast<size_t>(kCount), ranks = static_cast<size_t>(g_size);
  const auto right = [round](int rank, size_t i) { return (rank + 1) * static_cast<int>(i % 97) + round; };
  Memory data(Where::device, n * sizeof(int)), all(Where::device, ranks * n * sizeof(int));
  std::vector<int> in(n), out(ranks * n);
  for (size_t i = 0; i < n; i++) in[i] = right(g_rank, i);
  data.write(in.data());
  MPI_Allgather(data.at(0), kCount, MPI_INT, all.at(0), kCount, MPI_INT, MPI_COMM_WORLD);
  MPI_Bcast(data.at(0), kCount, MPI_INT, round % g_size, MPI_COMM_WORLD);
  all.read(out.data());
  data.read(in.data());
  for (size_t i = 0; i < ranks * n; i++)
    if (!checked(out[i] == right(static_cast<int>(i / n), i % n)))
      return fail("round %d: element %zu of the allgather is %d", round, i, out[i]);
  for (size_t i = 0; i < n; i++)
    if (!checked(in[i] == right(round % g_size, i)))
      return fail("round %d: element %zu of the broadcast is %d", round, i, in[i]);
}

// As on GPUs, a free waits until the device rests where the parameter emu_exclusive is set.
void free_meanwhile() {
  std::atomic<bool> ends{false};
  std::thread frees([&] {
    use_own_device();
    while (!ends) Memory(Where::device, 100);
  });
  for (int round = 0; round < kRounds; round++) gather_and_broadcast(round);
  ends = true;
  frees.join();
}

}  // namespace

int main(int argc, char** argv) {
  Mpi mpi(argc, argv, MPI_THREAD_MULTIPLE);
  if (argc > 1 && std::string(argv[1]) == "freeing") {
    use_own_device();
    free_meanwhile();
    return mpi.finish("threads");
  }
  const int n = argc > 1 ? std::atoi(argv[1]) : 2;
  std::vector<MPI_Comm> comms(static_cast<size_t>(n));
  std::vector<std::thread> others;
  for (MPI_Comm& comm : comms) MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  for (int i = 1; i < n; i++) {
    if (mpi.threads() == MPI_THREAD_MULTIPLE)
      others.emplace_back(work, comms[static_cast<size_t>(i)], i);
    else
      work(comms[static_cast<size_t>(i)], i);  // this MPI was built without: one after the other
  }
  work(comms[0], 0);
  for (std::thread& other : others) other.join();
  for (MPI_Comm& comm : comms) MPI_Comm_free(&comm);
  return mpi.finish("threads");
}
