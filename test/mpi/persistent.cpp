// Persistent collectives: made in one order, started in orders that differ between ranks, waited for in between, beside
// other collectives, started again with other data, on communicators that are freed. With device memory everywhere each
// start must run on the device.
//
// persistent          everything below with one thread
// persistent threads  several threads start and complete their own on one communicator
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <thread>

#include "abi/abi.h"
#include "freed_objects.h"
#include "mpi_test.h"

namespace {
using namespace mpi_test;

uint64_t runs() { return gpucoll_abi(GC_ABI_VERSION)->runs(); }
uint64_t launches() { return gpucoll_abi(GC_ABI_VERSION)->launches(); }
size_t z(int n) { return static_cast<size_t>(n); }
uint64_t u(int n) { return static_cast<uint64_t>(n); }

bool g_shared_gpu = false;  // by several processes, whose kernels take turns

enum Function { kAllreduce, kBcast, kAlltoall, kAlltoallInPlace, kReduceScatterBlock, kGather, kFunctions };

// One persistent collective, and what each of its starts must give.
class Operation {
 public:
  Operation(MPI_Comm comm, int id, Where where, int count = 0);
  ~Operation() { free(); }
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  int make();
  // Fills the buffers anew.
  void fill();
  void start() { expect_success(MPI_Start(&request), "starting"); }
  void wait() { expect_success(MPI_Wait(&request, MPI_STATUS_IGNORE), "waiting"); }
  void check();
  void run() {
    fill();
    start();
    wait();
    check();
  }
  void free() {
    if (request != MPI_REQUEST_NULL) MPI_Request_free(&request);
  }
  MPI_Request request = MPI_REQUEST_NULL;

 private:
  int value(int rank, int index) const {
    return static_cast<int>(mix(u(id_), u(rank) << 32 | u(start_), u(index)) % 1000);
  }
  int sum(int index) const {
    int s = 0;
    for (int r = 0; r < size_; r++) s += value(r, index);
    return s;
  }
  int expected(int index) const;
  bool has_result() const { return function_ != kGather || rank_ == root_; }
  void expect_success(int rc, const char* what) const {
    if (!checked(rc == MPI_SUCCESS)) fail("%s %d: error %d", what, id_, rc);
  }

  MPI_Comm comm_;
  int id_, rank_ = 0, size_ = 1, count_, root_, start_ = 0;
  Function function_;
  bool in_place_;
  std::unique_ptr<Memory> send_, recv_;
};

Operation::Operation(MPI_Comm comm, int id, Where where, int count) : comm_(comm), id_(id) {
  MPI_Comm_rank(comm, &rank_);
  MPI_Comm_size(comm, &size_);
  function_ = static_cast<Function>(id % kFunctions);
  in_place_ = function_ == kBcast || function_ == kAlltoallInPlace;
  count_ = count ? count : 1 + static_cast<int>(mix(u(id)) % 300);
  root_ = id % size_;
  send_ = std::make_unique<Memory>(where, z(count_ * size_) * sizeof(int));
  recv_ = std::make_unique<Memory>(where, z(count_ * size_) * sizeof(int));
}

int Operation::make() {
  int* in = send_->as<int>();
  int* out = recv_->as<int>();
  switch (function_) {
    case kAllreduce: return GC_INIT(Allreduce)(in, out, count_, MPI_INT, MPI_SUM, comm_, MPI_INFO_NULL, &request);
    case kBcast: return GC_INIT(Bcast)(out, count_, MPI_INT, root_, comm_, MPI_INFO_NULL, &request);
    case kAlltoall: return GC_INIT(Alltoall)(in, count_, MPI_INT, out, count_, MPI_INT, comm_, MPI_INFO_NULL, &request);
    case kAlltoallInPlace:
      return GC_INIT(Alltoall)(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, out, count_, MPI_INT, comm_, MPI_INFO_NULL,
                               &request);
    case kReduceScatterBlock:
      return GC_INIT(Reduce_scatter_block)(in, out, count_, MPI_INT, MPI_SUM, comm_, MPI_INFO_NULL, &request);
    default: return GC_INIT(Gather)(in, count_, MPI_INT, out, count_, MPI_INT, root_, comm_, MPI_INFO_NULL, &request);
  }
}

void Operation::fill() {
  start_++;
  std::vector<int> in(z(count_ * size_)), out(in.size(), -7);
  for (size_t i = 0; i < in.size(); i++) in[i] = value(rank_, static_cast<int>(i));
  if (in_place_) out = in;
  send_->write(in.data());
  recv_->write(out.data());
}

int Operation::expected(int i) const {
  switch (function_) {
    case kAllreduce: return sum(i);
    case kBcast: return value(root_, i);
    case kAlltoall:
    case kAlltoallInPlace: return value(i / count_, rank_ * count_ + i % count_);
    case kReduceScatterBlock: return sum(rank_ * count_ + i);
    default: return value(i / count_, i % count_);
  }
}

void Operation::check() {
  std::vector<int> out(z(count_ * size_));
  recv_->read(out.data());
  const bool one_block = function_ == kAllreduce || function_ == kBcast || function_ == kReduceScatterBlock;
  const int n = !has_result() ? 0 : one_block ? count_ : count_ * size_;
  for (int i = 0; i < n; i++) {
    if (checked(out[z(i)] == expected(i))) continue;
    fail("operation %d, function %d of %d, start %d: element %d is %d instead of %d", id_, function_, count_, start_, i,
         out[z(i)], expected(i));
    return;
  }
  for (size_t i = z(n); i < out.size() && !in_place_; i++)
    if (!checked(out[i] == -7)) return fail("operation %d, start %d: element %zu is written", id_, start_, i);
}

using Operations = std::vector<std::unique_ptr<Operation>>;

Operations make_some(MPI_Comm comm, int n, int first_id, const std::function<Where(int)>& where) {
  Operations all;
  for (int i = 0; i < n; i++) {
    all.push_back(std::make_unique<Operation>(comm, first_id + i, where(i)));
    if (!checked(all.back()->make() == MPI_SUCCESS)) fail("operation %d cannot be made", first_id + i);
  }
  return all;
}
Where on_device(int) { return Where::device; }

// Of the indices below n, another one on each rank.
std::vector<int> own_order(int n, uint64_t seed) {
  std::vector<int> order(z(n));
  std::iota(order.begin(), order.end(), 0);
  for (int i = n; i-- > 1;) std::swap(order[z(i)], order[mix(seed, u(g_rank), u(i)) % z(i + 1)]);
  return order;
}

void nap(uint64_t drawn) {
  if (drawn % 8 == 0) usleep(static_cast<useconds_t>(drawn >> 20 & 0x7ff));
}

void expect_runs(uint64_t before, int wanted, const char* when) {
  const uint64_t ran = runs() - before;
  if (!checked(ran == u(wanted))) fail("%s: %d of %d starts ran on the device", when, static_cast<int>(ran), wanted);
}

// Each rank in an order of its own, completed in another.
void in_any_order(MPI_Comm comm, int rounds, const char* name, int first_id, const std::function<Where(int)>& where,
                  bool on_device) {
  constexpr int kOperations = 8;
  Operations all = make_some(comm, kOperations, first_id, where);
  const uint64_t before = runs();
  for (int round = 0; round < rounds; round++) {
    for (int i : own_order(kOperations, u(round))) {
      nap(mix(u(round), u(i), u(g_rank)));
      all[z(i)]->fill();
      all[z(i)]->start();
    }
    for (int i : own_order(kOperations, u(round) + 1000)) {
      all[z(i)]->wait();
      all[z(i)]->check();
    }
  }
  if (on_device) expect_runs(before, rounds * kOperations, name);
}

// Their requests, in an order of this rank's own.
std::vector<MPI_Request> fill_in_own_order(const Operations& all, uint64_t round) {
  std::vector<MPI_Request> requests;
  for (int i : own_order(static_cast<int>(all.size()), round)) {
    all[z(i)]->fill();
    requests.push_back(all[z(i)]->request);
  }
  return requests;
}

// By the functions for several requests.
void all_at_once(MPI_Comm comm) {
  constexpr int kOperations = 12, kRounds = 10;
  Operations all = make_some(comm, kOperations, 700, on_device);
  const uint64_t before = runs();
  for (int round = 0; round < kRounds; round++) {
    std::vector<MPI_Request> requests = fill_in_own_order(all, u(round));
    MPI_Startall(kOperations, requests.data());
    int left = kOperations, index;
    std::vector<int> indices(kOperations);
    for (; round % 3 == 0 && left > 0; left--) MPI_Waitany(kOperations, requests.data(), &index, MPI_STATUS_IGNORE);
    for (int n = 0; round % 3 == 1 && left > 0; left -= n)
      MPI_Testsome(kOperations, requests.data(), &n, indices.data(), MPI_STATUSES_IGNORE);
    if (round % 3 == 2) MPI_Waitall(kOperations, requests.data(), MPI_STATUSES_IGNORE);
    for (auto& operation : all) operation->check();
  }
  expect_runs(before, kRounds * kOperations, "MPI_Startall");
}

// Small ones of one MPI_Startall go in one launch, whatever order each rank has them in and however late it comes.
// Where ranks share a GPU they do not.
void one_launch(MPI_Comm world) {
  constexpr int kOperations = 8, kRounds = 20, kCount = 256;
  MPI_Comm comm;
  MPI_Comm_dup(world, &comm);
  {
    Operations all;
    for (int i = 0; i < kOperations; i++) {
      all.push_back(std::make_unique<Operation>(comm, i * kFunctions + kAllreduce, Where::device, kCount + i));
      all.back()->make();
    }
    for (auto& operation : all) operation->run();
    const uint64_t before = launches();
    for (int round = 0; round < kRounds; round++) {
      std::vector<MPI_Request> requests = fill_in_own_order(all, u(round));
      nap(mix(u(round), u(g_rank), 5));
      MPI_Startall(kOperations, requests.data());
      MPI_Waitall(kOperations, requests.data(), MPI_STATUSES_IGNORE);
      for (auto& operation : all) operation->check();
    }
    const uint64_t made = launches() - before;
    // Trees, which carry them between nodes, run one by one.
    if (!g_shared_gpu && !on_several_nodes() && !checked(made == u(kRounds)))
      fail("%d times MPI_Startall of %d took %d launches", kRounds, kOperations, static_cast<int>(made));
  }
  MPI_Comm_free(&comm);
}

// Rank 0 starts one only when the other has ended, while the others have started both, in either order.
void waits_in_between(MPI_Comm comm) {
  Operations all = make_some(comm, 2, 100, on_device);
  for (int round = 0; round < 30; round++) {
    Operation &a = *all[z(round % 2)], &b = *all[z(1 - round % 2)];
    for (auto& operation : all) operation->fill();
    if (g_rank == 0) {
      b.start();
      b.wait();
      a.start();
      a.wait();
    } else {
      (g_rank % 2 ? a : b).start();
      (g_rank % 2 ? b : a).start();
      a.wait();
      b.wait();
    }
    for (auto& operation : all) operation->check();
  }
}

void blocking_sum(MPI_Comm comm, Memory& memory) {
  int mine = g_rank + 1, sum = 0;
  memory.write(&mine);
  MPI_Allreduce(MPI_IN_PLACE, memory.at(0), 1, MPI_INT, MPI_SUM, comm);
  memory.read(&sum);
  if (!checked(sum == g_size * (g_size + 1) / 2)) fail("a blocking sum beside persistent ones is %d", sum);
}

// Each rank starts at another point of what else it does.
void beside_others(MPI_Comm comm) {
  constexpr int kOperations = 5, kOthers = 6;
  Operations all = make_some(comm, kOperations, 200, on_device);
  Memory blocking(Where::device, sizeof(int)), nonblocking(Where::device, sizeof(int));
  for (int round = 0; round < 30; round++) {
    MPI_Request pending = MPI_REQUEST_NULL;
    const int one = g_rank + 1;
    nonblocking.write(&one);
    std::vector<int> moment;
    for (int i = 0; i < kOperations; i++)
      moment.push_back(static_cast<int>(mix(u(round), u(i), u(g_rank)) % (kOthers + 1)));
    for (int other = 0; other <= kOthers; other++) {
      for (int i = 0; i < kOperations; i++) {
        if (moment[z(i)] != other) continue;
        all[z(i)]->fill();
        all[z(i)]->start();
      }
      if (other == 1) MPI_Iallreduce(MPI_IN_PLACE, nonblocking.at(0), 1, MPI_INT, MPI_SUM, comm, &pending);
      if (other == 2 || other == 4) blocking_sum(comm, blocking);
      if (other == 3) MPI_Barrier(comm);
      if (other == 5) MPI_Wait(&pending, MPI_STATUS_IGNORE);
    }
    for (auto& operation : all) {
      operation->wait();
      operation->check();
    }
  }
}

// Some ranks have host memory.
void mixed_memory(MPI_Comm comm) {
  in_any_order(
      comm, 10, "mixed memory", 300, [](int i) { return mix(u(i), u(g_rank)) % 3 ? Where::device : Where::host; },
      false);
}

// Requests outlive the handle of their communicator.
void freed_communicators(const std::function<Where(int)>& where) {
  for (int round = 0; round < 10; round++) {
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    Operations all = make_some(comm, 3, 400 + round, where);
    MPI_Request barrier;
    GC_INIT(Barrier)(comm, MPI_INFO_NULL, &barrier);
    if (round % 2) all[0]->fill(), all[0]->start();
    MPI_Comm_free(&comm);
    MPI_Start(&barrier);
    MPI_Wait(&barrier, MPI_STATUS_IGNORE);
    MPI_Request_free(&barrier);
    if (round % 2) all[0]->wait(), all[0]->check();
    for (auto& operation : all) operation->run();
    for (int i : own_order(3, u(round))) all[z(i)]->free();
  }
}

// Freed without a start, or before anybody knows how they would run.
void never_started(MPI_Comm comm) {
  for (int round = 0; round < 20; round++) {
    nap(mix(u(round), u(g_rank)));
    Operations all = make_some(
        comm, 2, 500, round % 3 ? on_device : [](int) { return g_rank % 2 ? Where::device : Where::host; });
    all[1]->free();
    all[0]->run();
  }
}

// With no place left on the device the others go through the host, and are as right.
void many(MPI_Comm comm) {
  constexpr int kPlaces = 256;
  const uint64_t before = runs();
  {
    Operations all = make_some(comm, kPlaces + 4, 0, on_device);
    for (int i : own_order(kPlaces + 4, 1)) {
      all[z(i)]->fill();
      all[z(i)]->start();
    }
    for (auto& operation : all) operation->wait();
    for (auto& operation : all) operation->check();
  }
  expect_runs(before, kPlaces, "more than there are places for");
  in_any_order(comm, 3, "after many", 900, on_device, true);
}

void errors() {
  if (g_size == 1) return;
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);  // where Open MPI 4.1 reports those of such requests
  {
    Operation wrong(comm, 0, Where::device, g_rank == 1 ? 5 : 4), right(comm, 1, Where::device);
    wrong.make();
    right.make();
    MPI_Start(&wrong.request);  // Open MPI 4.1 frees a request that has ended with an error
    if (!checked(MPI_Wait(&wrong.request, MPI_STATUS_IGNORE) != MPI_SUCCESS)) fail("different counts have succeeded");
    right.run();
    right.run();
  }
  MPI_Comm_free(&comm);
}

void see_devices() {
  const char* kind = "";
  int devices = 1;
  need(gpucollDeviceKind(&kind), "gpucollDeviceKind");
  need(gpucollDeviceCount(&devices), "gpucollDeviceCount");
  g_shared_gpu = g_size > devices && (std::string(kind) == "cuda" || std::getenv("GPUCOLL_EMU_EXCLUSIVE"));
  // Of ranks that share devices one may launch first what another one has not come to (docs/adr/0014).
  g_keep_memory = g_shared_gpu;
}

void with_one_thread() {
  see_devices();
  MPI_Comm copy, half;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  MPI_Comm_split(MPI_COMM_WORLD, g_rank % 2, -g_rank, &half);
  in_any_order(copy, 100, "in any order", 0, on_device, true);
  in_any_order(half, 10, "on half of the ranks", 50, on_device, true);
  all_at_once(copy);
  one_launch(copy);
  waits_in_between(copy);
  beside_others(copy);
  beside_others(MPI_COMM_WORLD);
  mixed_memory(copy);
  never_started(copy);
  freed_communicators(on_device);
  freed_communicators([](int) { return g_rank == 0 ? Where::host : Where::device; });
  freed::test();
  many(copy);
  errors();
  MPI_Comm_free(&half);
  MPI_Comm_free(&copy);
}

// Each thread has made its own before, in one order on all ranks.
void with_threads() {
  g_keep_memory = true;
  constexpr int kThreads = 3, kEach = 3;
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  Operations all = make_some(comm, kThreads * kEach, 600, on_device);
  const uint64_t before = runs();
  constexpr int kRounds = 60;
  auto work = [&](int thread) {
    use_own_device();
    for (int round = 0; round < kRounds; round++) {
      const std::vector<int> order = own_order(kEach, mix(u(round), u(thread)));
      for (int i : order) all[z(thread * kEach + i)]->fill();
      for (int i : order) all[z(thread * kEach + i)]->start();
      for (int i = 0; i < kEach; i++) {
        all[z(thread * kEach + i)]->wait();
        all[z(thread * kEach + i)]->check();
      }
    }
  };
  std::vector<std::thread> threads;
  for (int t = 1; t < kThreads; t++) threads.emplace_back(work, t);
  work(0);
  for (std::thread& thread : threads) thread.join();
  expect_runs(before, kThreads * kEach * kRounds, "threads");
  all.clear();
  MPI_Comm_free(&comm);
}

}  // namespace

int main(int argc, char** argv) { return main_of(argc, argv, "persistent", with_one_thread, with_threads); }
