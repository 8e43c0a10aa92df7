// What must stay flat while it goes on: memory and descriptors of a process while communicators come, run collectives
// on device memory and go; and calls outstanding on several communicators of several threads, completed in any order.
// usage: stress [COMMUNICATORS [ROUNDS]]
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <thread>

#include "mpi_test.h"

namespace {
using namespace mpi_test;

constexpr int kCount = 1025, kThreads = 3, kOutstanding = 4;

int value(int rank, int salt, int i) { return (rank + 1) * (i % 89) + salt; }
int sum(int size, int salt, int i) { return size * (size + 1) / 2 * (i % 89) + size * salt; }

// An allreduce in the making: on memory of its own, checked by what the call is.
struct Sum {
  Memory send{Where::device, kCount * sizeof(int)}, recv{Where::device, kCount * sizeof(int)};
  std::vector<int> data = std::vector<int>(kCount);
  int salt = 0;

  void fill(int with) {
    salt = with;
    for (int i = 0; i < kCount; i++) data[static_cast<size_t>(i)] = value(g_rank, salt, i);
    send.write(data.data());
  }
  void check(const char* what) {
    recv.read(data.data());
    for (int i = 0; i < kCount; i++) {
      if (checked(data[static_cast<size_t>(i)] == sum(g_size, salt, i))) continue;
      return fail("%s, salt %d: element %d is %d", what, salt, i, data[static_cast<size_t>(i)]);
    }
  }
};

struct Footprint {
  long kilobytes = 0, descriptors = 0;
};
Footprint footprint() {
  Footprint now;
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (word == "VmRSS:") status >> now.kilobytes;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    now.descriptors += !entry.path().empty();
  return now;
}

void one_communicator(Sum& sum, int salt) {
  MPI_Comm comm;
  MPI_Request request;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  sum.fill(salt);
  MPI_Allreduce(sum.send.at(0), sum.recv.at(0), kCount, MPI_INT, MPI_SUM, comm);
  sum.check("allreduce on a new communicator");
  sum.fill(salt + 1);
  MPI_Iallreduce(sum.send.at(0), sum.recv.at(0), kCount, MPI_INT, MPI_SUM, comm, &request);
  if (salt % 3 == 0) MPI_Comm_free(&comm);  // MPI keeps it until the call is complete
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  sum.check("iallreduce on a new communicator");
  if (comm != MPI_COMM_NULL) MPI_Comm_free(&comm);
}

// The first ones fill pools that stay.
void communicators_leave_nothing(int n) {
  Sum sum;
  for (int i = 0; i < n / 3; i++) one_communicator(sum, i);
  const Footprint before = footprint();
  for (int i = n / 3; i < n; i++) one_communicator(sum, i);
  const Footprint after = footprint();
  if (g_rank == 0)
    std::printf("stress: %d communicators: %ld kB more, %ld descriptors more\n", n - n / 3,
                after.kilobytes - before.kilobytes, after.descriptors - before.descriptors);
  if (!checked(after.descriptors - before.descriptors <= 16))
    fail("%d communicators left %ld descriptors", n, after.descriptors - before.descriptors);
  // What a communicator has of slots and tables is megabytes. The boards of all ranks are touched bit by bit, up to 7
  // MiB each (docs/adr/0012).
  if (kFreedIsUsedAgain && !checked(after.kilobytes - before.kilobytes < 7168l * g_size + 8192))
    fail("%d communicators left %ld kB", n, after.kilobytes - before.kilobytes);
}

// Several calls outstanding, completed in an order that differs from rank to rank; ranks are late now and then.
void outstanding(MPI_Comm comm, int thread, int rounds) {
  std::vector<Sum> sums(kOutstanding);
  MPI_Request requests[kOutstanding];
  for (int round = 0; round < rounds; round++) {
    const uint64_t random = mix(static_cast<uint64_t>(round), static_cast<uint64_t>(g_rank * kThreads + thread));
    for (int i = 0; i < kOutstanding; i++) {
      if (random % 7 == static_cast<uint64_t>(i)) usleep(300);
      Sum& sum = sums[static_cast<size_t>(i)];
      sum.fill(1000 * thread + 10 * round + i);
      if (i == round % kOutstanding) {
        MPI_Allreduce(sum.send.at(0), sum.recv.at(0), kCount, MPI_INT, MPI_SUM, comm);
        requests[i] = MPI_REQUEST_NULL;
      } else {
        MPI_Iallreduce(sum.send.at(0), sum.recv.at(0), kCount, MPI_INT, MPI_SUM, comm, &requests[i]);
      }
    }
    for (int i = 0; i < kOutstanding; i++)
      MPI_Wait(&requests[(static_cast<int>(random >> 8 & 3) + i * (random >> 10 & 1 ? 1 : 3)) % kOutstanding],
               MPI_STATUS_IGNORE);
    for (Sum& sum : sums) sum.check("several outstanding");
  }
}

void threads_side_by_side(bool multiple, int rounds) {
  MPI_Comm comms[kThreads];
  for (MPI_Comm& comm : comms) MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; t++) {
    if (multiple)
      threads.emplace_back(outstanding, comms[t], t, rounds);
    else
      outstanding(comms[t], t, rounds);
  }
  for (std::thread& thread : threads) thread.join();
  for (MPI_Comm& comm : comms) MPI_Comm_free(&comm);
}

}  // namespace

int main(int argc, char** argv) {
  Mpi mpi(argc, argv, MPI_THREAD_MULTIPLE);
  communicators_leave_nothing(argc > 1 ? std::atoi(argv[1]) : 300);
  threads_side_by_side(mpi.threads() == MPI_THREAD_MULTIPLE, argc > 2 ? std::atoi(argv[2]) : 60);
  return mpi.finish("stress");
}
