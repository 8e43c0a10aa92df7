// Blocking collectives on device memory in close succession, for which kernels stay on the device: the same buffers
// again and again with other data, all one-shot functions, sizes of one block and of several, large messages, host
// memory, nonblocking ones and pauses in between, so that kernels stay, are posted to, are dismissed, and leave just as
// the next call comes.
#include <unistd.h>

#include "mpi_test.h"

namespace {
using namespace mpi_test;

constexpr int kCalls = 4000, kMost = 20000;

size_t z(int value) { return static_cast<size_t>(value); }
int value(int call, int rank, int k) { return static_cast<int>(mix(z(call), z(rank), z(k)) % 100000); }

int count_of(int call) {
  const uint64_t drawn = mix(1, z(call));
  if (drawn % 61 == 0) return kMost;
  return 1 + static_cast<int>((drawn >> 8) % (drawn % 7 == 0 ? 3000 : 20));
}

class Calls {
 public:
  Calls()
      : send_(Where::device, z(kMost * g_size) * sizeof(int)), recv_(Where::device, z(kMost * g_size) * sizeof(int)) {}

  // Now and then something else comes in between.
  void disturb(int call) {
    const uint64_t drawn = mix(2, z(call));
    if (drawn % 101 == 0) MPI_Barrier(MPI_COMM_WORLD);
    if (drawn % 103 == 1 || (drawn % 20 == 0 && call / 500 % 2)) usleep(static_cast<useconds_t>((drawn >> 8) % 300));
    if (drawn % 107 == 2) {
      int one = 1, sum = 0;
      MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
      if (!checked(sum == g_size)) fail("call %d: the sum on the host is %d", call, sum);
    }
  }
  void make(int call) {
    const int count = count_of(call), root = call % g_size;
    const uint64_t drawn = mix(3, z(call));
    // Runs of one function, as a kernel runs only what it was made for.
    switch (call / 40 % 5) {
      case 0:
      case 1: return all_reduce(call, count, drawn % 5 == 0, drawn % 29 == 0);
      case 2: return broadcast(call, count, root);
      case 3: return all_gather(call, count);
      default: return reduce(call, count, root);
    }
  }

 private:
  void write(Memory& memory, int call, int count) {
    values_.resize(z(count));
    for (int k = 0; k < count; ++k) values_[z(k)] = value(call, g_rank, k);
    memory.write(values_.data(), values_.size() * sizeof(int));
  }
  const std::vector<int>& read(const Memory& memory, int count) {
    values_.resize(z(count));
    memory.read(values_.data(), values_.size() * sizeof(int));
    return values_;
  }
  static int sum(int call, int k) {
    int all = 0;
    for (int r = 0; r < g_size; ++r) all += value(call, r, k);
    return all;
  }
  template <class Expected>
  void check(int call, const char* name, const Memory& memory, int count, const Expected& expected) {
    const std::vector<int>& got = read(memory, count);
    for (int k = 0; k < count; ++k) {
      if (checked(got[z(k)] == expected(k))) continue;
      return fail("call %d, %s of %d: element %d is %d instead of %d", call, name, count, k, got[z(k)], expected(k));
    }
  }

  void all_reduce(int call, int count, bool in_place, bool nonblocking) {
    write(in_place ? recv_ : send_, call, count);
    const void* from = in_place ? MPI_IN_PLACE : send_.at(0);
    if (nonblocking) {
      MPI_Request request;
      MPI_Iallreduce(from, recv_.at(0), count, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
      MPI_Allreduce(from, recv_.at(0), count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    }
    check(call, "allreduce", recv_, count, [&](int k) { return sum(call, k); });
  }
  void reduce(int call, int count, int root) {
    write(send_, call, count);
    MPI_Reduce(send_.at(0), recv_.at(0), count, MPI_INT, MPI_SUM, root, MPI_COMM_WORLD);
    if (g_rank == root) check(call, "reduce", recv_, count, [&](int k) { return sum(call, k); });
  }
  void broadcast(int call, int count, int root) {
    write(send_, call, count);
    MPI_Bcast(send_.at(0), count, MPI_INT, root, MPI_COMM_WORLD);
    check(call, "bcast", send_, count, [&](int k) { return value(call, root, k); });
  }
  void all_gather(int call, int count) {
    write(send_, call, count);
    MPI_Allgather(send_.at(0), count, MPI_INT, recv_.at(0), count, MPI_INT, MPI_COMM_WORLD);
    check(call, "allgather", recv_, count * g_size, [&](int k) { return value(call, k / count, k % count); });
  }

  Memory send_, recv_;
  std::vector<int> values_;
};

}  // namespace

int main(int argc, char** argv) {
  Mpi mpi(argc, argv);
  use_own_device();
  {
    Calls calls;
    for (int call = 0; call < kCalls; ++call) {
      calls.disturb(call);
      calls.make(call);
    }
  }
  return mpi.finish("close_calls");
}
