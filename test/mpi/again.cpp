// Blocking calls that come again on device memory, with one thing or another changed since: each is compared with the
// same call on host memory, over all of its buffer.
//
// again [threads]   in two threads of each rank, each with a communicator of its own
#include <functional>
#include <utility>

#include "mpi_test.h"

namespace {
using namespace mpi_test;

constexpr size_t kBytes = 4096, kSkipped = 12;  // the buffers begin inside of their allocations
constexpr int kWarmup = 4;                      // after so many a call is kept

// A call, and what this rank passes to it.
struct Call {
  const char* name;
  std::function<int(const void* send, void* recv, MPI_Comm comm)> run;
};

// Makes the same calls on device memory, and on host memory.
class Pair {
 public:
  explicit Pair(MPI_Comm comm) : comm_(comm) {}

  // `number` tells this call's data from those of others. on_host: this rank has host memory in both.
  void run(const Call& call, int number, bool on_host = false) {
    for (size_t i = 0; i < kBytes / 4; i++) in_[i] = 1 + (number * 31 + g_rank * 7 + static_cast<int>(i)) % 1000;
    out_.assign(kBytes / 4, -number);
    own_send_ = in_;
    own_recv_ = out_;
    const int right = call.run(in_.data(), out_.data(), comm_);
    send_.write(in_.data(), kBytes);
    recv_.write(own_recv_.data(), kBytes);
    const int rc = on_host ? call.run(own_send_.data(), own_recv_.data(), comm_) : call.run(send(), recv(), comm_);
    if (!on_host) recv_.read(own_recv_.data(), kBytes);
    size_t wrong = 0;
    while (wrong < own_recv_.size() && own_recv_[wrong] == out_[wrong]) wrong++;
    if (!checked(right == MPI_SUCCESS && rc == right && wrong == own_recv_.size()))
      fail("%s, call %d: code %d, word %zu is %d instead of %d", call.name, number, rc, wrong,
           wrong < own_recv_.size() ? own_recv_[wrong] : 0, wrong < own_recv_.size() ? out_[wrong] : 0);
  }
  void renew_recv() { recv_ = DeviceWords(); }

 private:
  // Words behind the first bytes of an allocation.
  class DeviceWords {
   public:
    DeviceWords() { need(gpucollMalloc(&all_, kSkipped + kBytes), "gpucollMalloc"); }
    DeviceWords(DeviceWords&& other) noexcept : all_(std::exchange(other.all_, nullptr)) {}
    DeviceWords& operator=(DeviceWords&& other) noexcept {
      std::swap(all_, other.all_);
      return *this;
    }
    ~DeviceWords() {
      if (all_) need(gpucollFree(all_), "gpucollFree");
    }
    char* at() const { return static_cast<char*>(all_) + kSkipped; }
    void write(const void* from, size_t bytes) { need(gpucollMemcpy(at(), from, bytes), "gpucollMemcpy"); }
    void read(void* to, size_t bytes) const { need(gpucollMemcpy(to, at(), bytes), "gpucollMemcpy"); }

   private:
    void* all_ = nullptr;
  };
  void* send() const { return send_.at(); }
  void* recv() const { return recv_.at(); }

  const MPI_Comm comm_;
  DeviceWords send_, recv_;
  std::vector<int> in_ = std::vector<int>(kBytes / 4), out_, own_send_, own_recv_;
};

Call allreduce(const char* name, int count, MPI_Datatype type, MPI_Op op) {
  return {name, [=](const void* send, void* recv, MPI_Comm comm) {
            return MPI_Allreduce(send, recv, count, type, op, comm);
          }};
}

// They differ from each other in one argument or two.
std::vector<Call> reductions() {
  return {allreduce("sum of 5", 5, MPI_INT, MPI_SUM),
          allreduce("sum of 6", 6, MPI_INT, MPI_SUM),
          allreduce("maximum of 5", 5, MPI_INT, MPI_MAX),
          allreduce("sum of 5 unsigned bytes", 5, MPI_UNSIGNED_CHAR, MPI_SUM),
          allreduce("exclusive or of 5", 5, MPI_INT, MPI_BXOR),
          allreduce("sum of 403", 403, MPI_INT, MPI_SUM),
          {"sum in place", [](const void*, void* recv,
                              MPI_Comm comm) { return MPI_Allreduce(MPI_IN_PLACE, recv, 5, MPI_INT, MPI_SUM, comm); }},
          {"sum of the second words",
           [](const void* send, void* recv, MPI_Comm comm) {
             return MPI_Allreduce(static_cast<const int*>(send) + 1, recv, 5, MPI_INT, MPI_SUM, comm);
           }},
          {"scan", [](const void* send, void* recv, MPI_Comm comm) {
             return MPI_Scan(send, recv, 5, MPI_INT, MPI_SUM, comm);
           }}};
}

Call bcast(const char* name, int count, MPI_Datatype type, bool from_last) {
  return {name, [=](const void* send, void* recv, MPI_Comm comm) {
            const int root = from_last ? g_size - 1 : 0;
            // MPI promises not to write there.
            void* const buffer = g_rank == root ? const_cast<void*>(send) : recv;
            return MPI_Bcast(buffer, count, type, root, comm);
          }};
}

Call reduce(const char* name, bool to_last, MPI_Op op) {
  return {name, [=](const void* send, void* recv, MPI_Comm comm) {
            const int root = to_last ? g_size - 1 : 0;
            return MPI_Reduce(send, g_rank == root ? recv : nullptr, 7, MPI_INT, op, root, comm);
          }};
}

std::vector<Call> rooted() {
  return {bcast("5 from the first", 5, MPI_INT, false),
          bcast("5 from the last", 5, MPI_INT, true),
          bcast("9 shorts from the first", 9, MPI_SHORT, false),
          reduce("sum to the first", false, MPI_SUM),
          reduce("sum to the last", true, MPI_SUM),
          reduce("maximum to the first", false, MPI_MAX),
          // Arguments that are not significant may be anything.
          {"gather",
           [](const void* send, void* recv, MPI_Comm comm) {
             const bool root = g_rank == 0;
             return MPI_Gather(send, 3, MPI_INT, root ? recv : nullptr, root ? 3 : -1,
                               root ? MPI_INT : MPI_DATATYPE_NULL, 0, comm);
           }},
          {"scatter", [](const void* send, void* recv, MPI_Comm comm) {
             const bool root = g_rank == g_size - 1;
             return MPI_Scatter(root ? send : nullptr, root ? 3 : -1, root ? MPI_INT : MPI_DATATYPE_NULL, recv, 3,
                                MPI_INT, g_size - 1, comm);
           }}};
}

std::vector<Call> moves() {
  return {{"allgather of 5", [](const void* send, void* recv,
                                MPI_Comm comm) { return MPI_Allgather(send, 5, MPI_INT, recv, 5, MPI_INT, comm); }},
          {"allgather of 5 as bytes",
           [](const void* send, void* recv, MPI_Comm comm) {
             return MPI_Allgather(send, 5, MPI_INT, recv, 20, MPI_BYTE, comm);
           }},
          {"allgather of 4", [](const void* send, void* recv,
                                MPI_Comm comm) { return MPI_Allgather(send, 4, MPI_INT, recv, 4, MPI_INT, comm); }},
          {"alltoall of 5", [](const void* send, void* recv,
                               MPI_Comm comm) { return MPI_Alltoall(send, 5, MPI_INT, recv, 5, MPI_INT, comm); }},
          {"alltoall of 6 shorts",
           [](const void* send, void* recv, MPI_Comm comm) {
             return MPI_Alltoall(send, 6, MPI_SHORT, recv, 6, MPI_SHORT, comm);
           }},
          {"reduce_scatter_block of 5",
           [](const void* send, void* recv, MPI_Comm comm) {
             return MPI_Reduce_scatter_block(send, recv, 5, MPI_INT, MPI_SUM, comm);
           }},
          {"nonblocking sum of 5", [](const void* send, void* recv, MPI_Comm comm) {
             MPI_Request request;
             const int rc = MPI_Iallreduce(send, recv, 5, MPI_INT, MPI_SUM, comm, &request);
             MPI_Wait(&request, MPI_STATUS_IGNORE);
             return rc;
           }}};
}

// Each call comes behind each other one, and each is kept before that.
void in_all_orders(const std::vector<Call>& calls, MPI_Comm comm) {
  Pair pair(comm);
  int number = 0;
  for (int i = 0; i < kWarmup; i++)
    for (const Call& call : calls) pair.run(call, ++number);
  for (const Call& first : calls)
    for (const Call& second : calls)
      for (const Call* call : {&first, &second}) pair.run(*call, ++number);
}

// Many more than are kept: each set of the table has calls that differ in their counts alone.
void with_many_counts(MPI_Comm comm) {
  Pair pair(comm);
  int number = 0;
  for (int from = 1; from < 200; from += 10)
    for (int i = 0; i < kWarmup; i++)
      for (int count = from; count < from + 10; count++)
        pair.run(allreduce("a count of many", count, MPI_INT, MPI_SUM), ++number);
}

// A type is freed, and another one is made where it was.
void types_come_and_go(MPI_Comm comm) {
  Pair pair(comm);
  int number = 0;
  for (int length = 1; length < 12; length++) {
    MPI_Datatype type;
    MPI_Type_contiguous(length, MPI_INT, &type);
    MPI_Type_commit(&type);
    for (int i = 0; i < kWarmup; i++) pair.run(bcast("a type of many", 3, type, false), ++number);
    MPI_Type_free(&type);
  }
}

// Its address may well stay.
void memory_comes_and_goes(MPI_Comm comm) {
  Pair pair(comm);
  const Call call = allreduce("sum on new memory", 403, MPI_INT, MPI_SUM);
  for (int number = 0; number < 8 * kWarmup; number++) {
    if (number % kWarmup == 0) pair.renew_recv();
    pair.run(call, number);
  }
}

// One rank after the other passes host memory where it has passed device memory before.
void ranks_have_host_memory_at_times(MPI_Comm comm) {
  Pair pair(comm);
  int number = 0;
  for (int rank = 0; rank < g_size; rank++)
    for (const Call& call : reductions()) {
      for (int i = 0; i < kWarmup; i++) pair.run(call, ++number);
      pair.run(call, ++number, g_rank == rank);
    }
}

// A rank calls something else than it did before, and than the others do: all get an error, also the second time.
void ranks_disagree_at_times() {
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  Memory send(Where::device, 64), recv(Where::device, 64);
  need(gpucollMemset(send.at(0), 1, 64), "gpucollMemset");
  const auto reduce = [&](MPI_Op op) { return MPI_Allreduce(send.at(0), recv.at(0), 5, MPI_INT, op, comm); };
  for (int rank = 0; rank < g_size; rank++) {
    for (const MPI_Op op : {MPI_SUM, MPI_MAX})
      for (int i = 0; i < kWarmup; i++)
        if (!checked(reduce(op) == MPI_SUCCESS)) fail("a call that all ranks make has failed");
    for (int i = 0; i < 2; i++)
      if (!checked(reduce(g_rank == rank ? MPI_MAX : MPI_SUM) != MPI_SUCCESS || g_size == 1))
        fail("rank %d calls something else, and nobody says so the %s time", rank, i ? "second" : "first");
    if (!checked(reduce(MPI_SUM) == MPI_SUCCESS)) fail("a call that all ranks make again has failed");
  }
  MPI_Comm_free(&comm);
}

void communicators_come_and_go(MPI_Comm comm) {
  for (int i = 0; i < 3; i++) {
    MPI_Comm other;
    MPI_Comm_dup(comm, &other);
    in_all_orders({allreduce("sum of 5", 5, MPI_INT, MPI_SUM), allreduce("sum of 6", 6, MPI_INT, MPI_SUM)}, other);
    MPI_Comm_free(&other);
  }
}

void run_all(MPI_Comm comm) {
  in_all_orders(reductions(), comm);
  in_all_orders(rooted(), comm);
  in_all_orders(moves(), comm);
  with_many_counts(comm);
  types_come_and_go(comm);
  memory_comes_and_goes(comm);
  ranks_have_host_memory_at_times(comm);
}

void with_one_thread() {
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  run_all(comm);
  communicators_come_and_go(comm);
  ranks_disagree_at_times();
  MPI_Comm_free(&comm);
}

void with_threads() {
  constexpr int kThreads = 2;
  MPI_Comm comms[kThreads];
  for (MPI_Comm& comm : comms) MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  on_threads(kThreads, [&](int thread) { run_all(comms[thread]); });
  for (MPI_Comm& comm : comms) MPI_Comm_free(&comm);
}

}  // namespace

int main(int argc, char** argv) { return main_of(argc, argv, "again", with_one_thread, with_threads); }
