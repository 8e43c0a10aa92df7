// Nonblocking collectives under way together: every function, on host and device memory, with blocking ones in between,
// several communicators, completed in any order by any of MPI's functions, while some ranks are late. What all ranks
// must know is drawn alike on all, the kinds of memory, naps and the order of completion by each rank alone.
//
// nonblocking          everything below with one thread
// nonblocking threads  two threads start on communicators of their own, and each completes what the other has started
#include <unistd.h>

#include <functional>
#include <memory>
#include <mutex>
#include <numeric>
#include <thread>

#include "abi/abi.h"
#include "mpi_test.h"

namespace {
using namespace mpi_test;

constexpr int kRounds = 250, kUnderWay = 24;
constexpr int kUntouched = -7;

enum Function {
  kAllreduce,
  kBcast,
  kAllgather,
  kAllgatherv,
  kAlltoall,
  kAlltoallv,
  kGather,
  kGatherv,
  kScatter,
  kScatterv,
  kReduce,
  kReduceScatter,
  kReduceScatterBlock,
  kScan,
  kExscan,
  kBarrier,
  kFunctions
};
enum class Kinds { host, device, mixed };

int value(uint64_t id, int rank, int index) {
  return static_cast<int>(mix(id, static_cast<uint64_t>(rank), static_cast<uint64_t>(index)) % 1000);
}
uint64_t u(int n) { return static_cast<uint64_t>(n); }
size_t z(int n) { return static_cast<size_t>(n); }

// One call: made alike on all ranks but for the kinds of memory.
class Call {
 public:
  Call(MPI_Comm comm, uint64_t id, Kinds kinds);
  int start();
  void check(const char* when);
  MPI_Request request = MPI_REQUEST_NULL;
  bool on_device() const { return function_ != kBarrier && !empty_; }

 private:
  int sum(int from, int to, int index) const {
    int s = 0;
    for (int r = from; r < to; r++) s += value(id_, r, index);
    return s;
  }
  void make_input();
  void expect();
  Where draw(Kinds kinds, int side) const;
  int before(int rank) const { return std::accumulate(counts_.begin(), counts_.begin() + rank, 0); }

  MPI_Comm comm_;
  uint64_t id_;
  Function function_;
  int rank_ = 0, size_ = 1, root_, count_;
  bool empty_ = false;
  std::vector<int> counts_, places_, twice_;  // for each rank, of the v-variants
  std::vector<int> in_, out_, expected_;
  std::unique_ptr<Memory> send_, recv_;
};

Where Call::draw(Kinds kinds, int side) const {
  if (kinds != Kinds::mixed) return kinds == Kinds::host ? Where::host : Where::device;
  // One side in eight is host memory: else hardly any call would be all on devices.
  return mix(id_, static_cast<uint64_t>(rank_), static_cast<uint64_t>(77 + side)) % 8 ? Where::device : Where::host;
}

Call::Call(MPI_Comm comm, uint64_t id, Kinds kinds) : comm_(comm), id_(id) {
  MPI_Comm_rank(comm, &rank_);
  MPI_Comm_size(comm, &size_);
  const uint64_t drawn = mix(id, 1);
  function_ = static_cast<Function>(drawn % kFunctions);
  root_ = static_cast<int>(drawn >> 8) % size_;
  root_ = root_ < 0 ? -root_ : root_;
  count_ = static_cast<int>(drawn >> 32 & 7 ? (drawn >> 40) % 50 : (drawn >> 40) % 9000);
  for (int r = 0; r < size_; r++) counts_.push_back(static_cast<int>(mix(id, 2, static_cast<uint64_t>(r)) % 40));
  for (int r = 0; r < size_; r++) places_.push_back(before(r) + r);  // a gap of one element before each block
  empty_ = count_ == 0 && function_ != kAllgatherv && function_ != kAlltoallv && function_ != kGatherv &&
           function_ != kScatterv && function_ != kReduceScatter;
  make_input();
  expect();
  send_ = std::make_unique<Memory>(draw(kinds, 0), in_.size() * sizeof(int));
  recv_ = std::make_unique<Memory>(draw(kinds, 1), expected_.size() * sizeof(int));
  send_->write(in_.data());
  recv_->write(out_.data());
}

void Call::make_input() {
  const int total = before(size_);
  int n = count_;
  if (function_ == kAlltoall || function_ == kScatter || function_ == kReduceScatterBlock) n = count_ * size_;
  if (function_ == kAllgatherv || function_ == kGatherv) n = counts_[z(rank_)];
  if (function_ == kAlltoallv || function_ == kScatterv) n = total + size_;
  if (function_ == kReduceScatter) n = total;
  for (int i = 0; i < n; i++) in_.push_back(value(id_, rank_, i));
}

// Of blocks with gaps: element i of the block that goes to rank `to` has index places[to] + i at its sender.
void Call::expect() {
  auto put = [this](int v) { expected_.push_back(v); };
  const int total = before(size_);
  switch (function_) {
    case kAllreduce:
      for (int i = 0; i < count_; i++) put(sum(0, size_, i));
      break;
    case kScan:
      for (int i = 0; i < count_; i++) put(sum(0, rank_ + 1, i));
      break;
    case kExscan:
      for (int i = 0; i < count_; i++) put(rank_ == 0 ? kUntouched : sum(0, rank_, i));
      break;
    case kBcast:
      for (int i = 0; i < count_; i++) put(value(id_, root_, i));
      break;
    case kReduce:
      for (int i = 0; i < count_; i++) put(rank_ == root_ ? sum(0, size_, i) : kUntouched);
      break;
    case kAllgather:
    case kGather:
      for (int r = 0; r < size_; r++)
        for (int i = 0; i < count_; i++) put(function_ == kAllgather || rank_ == root_ ? value(id_, r, i) : kUntouched);
      break;
    case kAllgatherv:
    case kGatherv:
      expected_.assign(z(total + size_), kUntouched);
      for (int r = 0; r < size_ && (function_ == kAllgatherv || rank_ == root_); r++)
        for (int i = 0; i < counts_[z(r)]; i++) expected_[z(places_[z(r)] + i)] = value(id_, r, i);
      break;
    case kAlltoall:
      for (int r = 0; r < size_; r++)
        for (int i = 0; i < count_; i++) put(value(id_, r, rank_ * count_ + i));
      break;
    case kAlltoallv:  // every rank gets counts[own rank] from each
      for (int r = 0; r < size_; r++)
        for (int i = 0; i < counts_[z(rank_)]; i++) put(value(id_, r, places_[z(rank_)] + i));
      break;
    case kScatter:
      for (int i = 0; i < count_; i++) put(value(id_, root_, rank_ * count_ + i));
      break;
    case kScatterv:
      for (int i = 0; i < counts_[z(rank_)]; i++) put(value(id_, root_, places_[z(rank_)] + i));
      break;
    case kReduceScatter:
      for (int i = 0; i < counts_[z(rank_)]; i++) put(sum(0, size_, before(rank_) + i));
      break;
    case kReduceScatterBlock:
      for (int i = 0; i < count_; i++) put(sum(0, size_, rank_ * count_ + i));
      break;
    default: break;
  }
  out_.assign(expected_.size(), kUntouched);
  if (function_ == kBcast && rank_ == root_) out_ = expected_;
}

int Call::start() {
  int* in = send_->as<int>();
  int* out = recv_->as<int>();
  const int own = counts_[z(rank_)];
  // Of alltoallv: alike for all senders.
  twice_.assign(z(size_), own);
  for (int r = 0; r < size_; r++) twice_.push_back(r * own);
  switch (function_) {
    case kAllreduce: return MPI_Iallreduce(in, out, count_, MPI_INT, MPI_SUM, comm_, &request);
    case kScan: return MPI_Iscan(in, out, count_, MPI_INT, MPI_SUM, comm_, &request);
    case kExscan: return MPI_Iexscan(in, out, count_, MPI_INT, MPI_SUM, comm_, &request);
    case kBcast: return MPI_Ibcast(out, count_, MPI_INT, root_, comm_, &request);
    case kReduce: return MPI_Ireduce(in, out, count_, MPI_INT, MPI_SUM, root_, comm_, &request);
    case kAllgather: return MPI_Iallgather(in, count_, MPI_INT, out, count_, MPI_INT, comm_, &request);
    case kAllgatherv:
      return MPI_Iallgatherv(in, own, MPI_INT, out, counts_.data(), places_.data(), MPI_INT, comm_, &request);
    case kAlltoall: return MPI_Ialltoall(in, count_, MPI_INT, out, count_, MPI_INT, comm_, &request);
    case kAlltoallv:
      return MPI_Ialltoallv(in, counts_.data(), places_.data(), MPI_INT, out, twice_.data(), twice_.data() + size_,
                            MPI_INT, comm_, &request);
    case kGather: return MPI_Igather(in, count_, MPI_INT, out, count_, MPI_INT, root_, comm_, &request);
    case kGatherv:
      return MPI_Igatherv(in, own, MPI_INT, out, counts_.data(), places_.data(), MPI_INT, root_, comm_, &request);
    case kScatter: return MPI_Iscatter(in, count_, MPI_INT, out, count_, MPI_INT, root_, comm_, &request);
    case kScatterv:
      return MPI_Iscatterv(in, counts_.data(), places_.data(), MPI_INT, out, own, MPI_INT, root_, comm_, &request);
    case kReduceScatter: return MPI_Ireduce_scatter(in, out, counts_.data(), MPI_INT, MPI_SUM, comm_, &request);
    case kReduceScatterBlock: return MPI_Ireduce_scatter_block(in, out, count_, MPI_INT, MPI_SUM, comm_, &request);
    default: return MPI_Ibarrier(comm_, &request);
  }
}

void Call::check(const char* when) {
  recv_->read(out_.data());
  for (size_t i = 0; i < expected_.size(); i++) {
    if (checked(out_[i] == expected_[i])) continue;
    fail("%s: call %lu, function %d of %d from rank %d: element %zu is %d instead of %d", when,
         static_cast<unsigned long>(id_), function_, count_, root_, i, out_[i], expected_[i]);
    return;
  }
}

// Those under way, and how they are completed.
class Flight {
 public:
  explicit Flight(const char* name) : name_(name) {}
  void start(MPI_Comm comm, uint64_t id, Kinds kinds) {
    calls_.push_back(std::make_unique<Call>(comm, id, kinds));
    const int rc = calls_.back()->start();
    if (!checked(rc == MPI_SUCCESS)) fail("%s: starting %lu: error %d", name_, static_cast<unsigned long>(id), rc);
  }
  size_t size() const { return calls_.size(); }
  // Completes some, in a way drawn by this rank.
  void complete_some(uint64_t drawn);
  void complete_all(bool backwards = false);

 private:
  std::vector<MPI_Request> requests() const {
    std::vector<MPI_Request> all;
    for (const auto& call : calls_) all.push_back(call->request);
    return all;
  }
  void take(const std::vector<MPI_Request>& requests);
  const char* name_;
  std::vector<std::unique_ptr<Call>> calls_;
};

// Checks and forgets those whose request is gone.
void Flight::take(const std::vector<MPI_Request>& requests) {
  std::vector<std::unique_ptr<Call>> left;
  for (size_t i = 0; i < calls_.size(); i++) {
    calls_[i]->request = requests[i];
    if (requests[i] == MPI_REQUEST_NULL)
      calls_[i]->check(name_);
    else
      left.push_back(std::move(calls_[i]));
  }
  calls_ = std::move(left);
}

void Flight::complete_some(uint64_t drawn) {
  if (calls_.empty()) return;
  std::vector<MPI_Request> all = requests();
  const int n = static_cast<int>(all.size());
  const size_t one = drawn >> 8 & 1 ? all.size() - 1 : (drawn >> 16) % all.size();
  int flag, index;
  std::vector<int> indices(all.size());
  switch (drawn % 7) {
    case 0: MPI_Test(&all[one], &flag, MPI_STATUS_IGNORE); break;
    case 1: MPI_Testany(n, all.data(), &index, &flag, MPI_STATUS_IGNORE); break;
    case 2: MPI_Testsome(n, all.data(), &index, indices.data(), MPI_STATUSES_IGNORE); break;
    case 3: MPI_Waitany(n, all.data(), &index, MPI_STATUS_IGNORE); break;
    case 4: MPI_Waitsome(n, all.data(), &index, indices.data(), MPI_STATUSES_IGNORE); break;
    case 5: MPI_Wait(&all[one], MPI_STATUS_IGNORE); break;
    default: return;
  }
  take(all);
}

void Flight::complete_all(bool backwards) {
  std::vector<MPI_Request> all = requests();
  const int n = static_cast<int>(all.size());
  if (backwards)
    for (int i = n; i-- > 0;) MPI_Wait(&all[z(i)], MPI_STATUS_IGNORE);
  else
    MPI_Waitall(n, all.data(), MPI_STATUSES_IGNORE);
  take(all);
}

void nap(uint64_t mine) {
  if (mine % 16 == 0) usleep(static_cast<useconds_t>(mine >> 20 & 0x7ff));
}

void blocking(MPI_Comm comm, uint64_t id) {
  const bool device = mix(id, 5) & 1;
  int rank, size, sum = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  Memory memory(device ? Where::device : Where::host, sizeof sum);
  const int mine = value(id, rank, 0);
  memory.write(&mine);
  if (mix(id, 6) & 1) {
    MPI_Allreduce(MPI_IN_PLACE, memory.at(0), 1, MPI_INT, MPI_SUM, comm);
    for (int r = 0; r < size; r++) sum += value(id, r, 0);
  } else {
    MPI_Bcast(memory.at(0), 1, MPI_INT, 0, comm);
    sum = value(id, 0, 0);
  }
  int got;
  memory.read(&got);
  if (!checked(got == sum)) fail("blocking call %lu gave %d instead of %d", static_cast<unsigned long>(id), got, sum);
}

void stress(const char* name, uint64_t seed, Kinds kinds, const std::vector<MPI_Comm>& comms) {
  Flight flight(name);
  for (uint64_t round = 0; round < kRounds; round++) {
    const uint64_t ours = mix(seed, round), mine = mix(ours, static_cast<uint64_t>(g_rank), 3);
    nap(mine);
    const MPI_Comm comm = comms[ours % comms.size()];
    if (ours >> 8 & 7)
      flight.start(comm, mix(seed, round, 9), kinds);
    else
      blocking(comm, mix(seed, round, 9));
    flight.complete_some(mine);
    if (flight.size() >= kUnderWay) flight.complete_all(mine >> 9 & 1);
  }
  flight.complete_all();
}

// All device memory: each must have run there.
void runs_on_the_device() {
  const auto runs = gpucoll_abi(GC_ABI_VERSION)->runs;
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  const uint64_t before = runs();
  const int calls = 30;
  std::vector<std::unique_ptr<Memory>> memories;
  std::vector<MPI_Request> requests(z(calls));
  for (int i = 0; i < calls; i++) {
    memories.push_back(std::make_unique<Memory>(Where::device, 100 * sizeof(int)));
    std::vector<int> in(100, g_rank + i);
    memories.back()->write(in.data());
    int* data = memories.back()->as<int>();
    if (i % 3 == 2)
      MPI_Ibcast(data, 100, MPI_INT, i % g_size, comm, &requests[z(i)]);
    else if (i % 3 == 1)
      MPI_Ireduce_scatter_block(MPI_IN_PLACE, data, 100 / g_size, MPI_INT, MPI_SUM, comm, &requests[z(i)]);
    else
      MPI_Iallreduce(MPI_IN_PLACE, data, 100, MPI_INT, MPI_SUM, comm, &requests[z(i)]);
  }
  MPI_Waitall(calls, requests.data(), MPI_STATUSES_IGNORE);
  for (int i = 0; i < calls; i++) {
    std::vector<int> out(100);
    memories[z(i)]->read(out.data());
    const int sum = g_size * (g_size - 1) / 2 + g_size * i, expected = i % 3 == 2 ? i % g_size + i : sum;
    if (!checked(out[0] == expected && out[z(100 / g_size - 1)] == expected))
      fail("on the device, call %d: %d instead of %d", i, out[0], expected);
  }
  const int ended_by_mpi = g_size == 1 ? calls / 3 : 0;  // MPI_Ibcast
  if (!checked(runs() - before == static_cast<uint64_t>(calls - ended_by_mpi)))
    fail("%d of %d calls ran on the device", static_cast<int>(runs() - before), calls);
  MPI_Comm_free(&comm);
}

// Whether a thread does what nobody calls MPI for: the parameter progress_thread.
bool has_progress_thread() { return gpucoll_abi(GC_ABI_VERSION)->param_value("progress_thread") != 0; }

// Small ones that are begun while large ones run go together, however late some rank is.
void share_launches() {
  constexpr int kSmall = 8, kCount = 256, kRounds = 5;
  // On a GPU the small ones are to come before the large ones have ended, too.
  const char* const device = std::getenv("GPUCOLL_DEVICE");
  const int n_large = device && !std::strcmp(device, "emu") ? 1 << 20 : 1 << 24;
  const auto launches = gpucoll_abi(GC_ABI_VERSION)->launches;
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  const size_t large_bytes = static_cast<size_t>(n_large) * sizeof(int);
  Memory large[2] = {{Where::device, large_bytes}, {Where::device, large_bytes}};
  Memory small(Where::device, kSmall * kCount * sizeof(int));
  std::vector<int> data(kSmall * kCount), zeros(z(n_large));
  uint64_t made = 0;
  for (Memory& memory : large) memory.write(zeros.data());
  for (int round = -1; round < kRounds; round++) {  // the first one makes connections
    for (int i = 0; i < kSmall * kCount; i++) data[z(i)] = value(u(round + 1), g_rank, i);
    small.write(data.data());
    MPI_Request requests[2 + kSmall];
    const uint64_t before = launches();
    for (int i = 0; i < 2; i++)
      MPI_Iallreduce(MPI_IN_PLACE, large[i].at(0), n_large, MPI_INT, MPI_SUM, comm, &requests[i]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    const uint64_t of_large = launches() - before;
    nap(mix(u(round), u(g_rank), 91));
    for (int i = 0; i < 2; i++)
      MPI_Iallreduce(MPI_IN_PLACE, large[i].at(0), n_large, MPI_INT, MPI_SUM, comm, &requests[i]);
    for (int i = 0; i < kSmall; i++)
      MPI_Iallreduce(MPI_IN_PLACE, small.as<int>() + i * kCount, kCount - i, MPI_INT, MPI_SUM, comm, &requests[2 + i]);
    MPI_Waitall(2 + kSmall, requests, MPI_STATUSES_IGNORE);
    if (round >= 0) made += launches() - before - 2 * of_large;
    small.read(data.data());
    for (int i = 0; i < kSmall * kCount; i++) {
      int sum = 0;
      for (int r = 0; r < g_size; r++) sum += value(u(round + 1), r, i);
      const int expected = i % kCount < kCount - i / kCount ? sum : value(u(round + 1), g_rank, i);
      if (!checked(data[z(i)] == expected)) return fail("sharing launches, element %d: %d", i, data[z(i)]);
    }
  }
  int devices = 1;
  need(gpucollDeviceCount(&devices), "gpucollDeviceCount");
  // About one a round, but the processor may be taken from a rank between its calls. Those of ranks that may share a
  // device run one by one, and so do trees, which carry them between nodes.
  if (!checked(g_size > devices || on_several_nodes() || !has_progress_thread() || made <= u(kRounds * kSmall * 3 / 4)))
    fail("%d small ones took %d launches", kRounds * kSmall, static_cast<int>(made));
  MPI_Comm_free(&comm);
}

// A device rests before memory goes: what ranks launch, they must launch in the order in which they have called.
void memory_goes_beside(const std::vector<MPI_Comm>& comms) {
  constexpr int kRounds = 300, kCount = 100;
  std::vector<std::unique_ptr<Memory>> memories;
  for (size_t i = 0; i < comms.size(); i++)
    memories.push_back(std::make_unique<Memory>(Where::device, kCount * sizeof(int)));
  for (uint64_t round = 0; round < kRounds; round++) {
    std::vector<MPI_Request> requests(comms.size());
    for (size_t i = 0; i < comms.size(); i++) {
      const std::vector<int> in(kCount, value(round, g_rank, static_cast<int>(i)));
      memories[i]->write(in.data());
    }
    auto gone = std::make_unique<Memory>(Where::device, 4096);
    for (size_t i = 0; i < comms.size(); i++) {
      nap(mix(round, i, u(g_rank)));
      MPI_Iallreduce(MPI_IN_PLACE, memories[i]->at(0), kCount, MPI_INT, MPI_SUM, comms[i], &requests[i]);
    }
    gone.reset();
    MPI_Waitall(static_cast<int>(comms.size()), requests.data(), MPI_STATUSES_IGNORE);
    for (size_t i = 0; i < comms.size(); i++) {
      std::vector<int> out(kCount);
      memories[i]->read(out.data());
      int sum = 0;
      for (int r = 0; r < g_size; r++) sum += value(round, r, static_cast<int>(i));
      if (!checked(out[0] == sum && out.back() == sum))
        fail("memory goes beside, round %d: %d", static_cast<int>(round), out[0]);
    }
  }
}

// MPI keeps a communicator until what is under way on it has ended.
void freed_communicators() {
  for (uint64_t round = 0; round < 20; round++) {
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    Flight flight("a freed communicator");
    for (uint64_t call = 0; call < 20; call++) {
      nap(mix(round, call, static_cast<uint64_t>(g_rank)));
      flight.start(comm, mix(41, round, call), Kinds::mixed);
    }
    MPI_Comm_free(&comm);
    flight.complete_all(round % 2);
  }
}

// A communicator that MPI makes by nonblocking collectives of its own on one that is in use.
void duplicates() {
  for (uint64_t round = 0; round < 10; round++) {
    Flight flight("beside MPI_Comm_idup");
    MPI_Comm copy;
    MPI_Request request;
    for (uint64_t call = 0; call < 5; call++) flight.start(MPI_COMM_WORLD, mix(51, round, call), Kinds::mixed);
    MPI_Comm_idup(MPI_COMM_WORLD, &copy, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    flight.start(copy, mix(52, round), Kinds::device);
    flight.complete_all();
    MPI_Comm_free(&copy);
  }
}

// The last rank comes late, and nobody calls MPI before the result is there; or it is not, where no thread sees to
// that.
void without_calling_mpi() {
  const bool thread = has_progress_thread();
  int unfinished = 0;
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  constexpr int kCount = 1000;
  Memory memory(Where::device, kCount * sizeof(int));
  std::vector<int> data(kCount, g_rank + 1);
  for (int round = 0; round < 5; round++) {  // the first one makes connections
    data.assign(kCount, g_rank + 1);
    memory.write(data.data());
    MPI_Barrier(comm);
    if (g_rank == g_size - 1) usleep(30000);
    MPI_Request request;
    MPI_Iallreduce(MPI_IN_PLACE, memory.at(0), kCount, MPI_INT, MPI_SUM, comm, &request);
    const int sum = g_size * (g_size + 1) / 2;
    for (int look = 0; look < (thread ? 1000 : 10) && data.back() != sum; look++) {
      if (look) usleep(10000);
      memory.read(data.data());
    }
    if (!checked(!thread || data.back() == sum)) fail("without a call to MPI nothing goes on, in round %d", round);
    unfinished += data.back() != sum;
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    memory.read(data.data());
    if (!checked(data.back() == sum)) fail("%d instead of %d after MPI_Wait, in round %d", data.back(), sum, round);
  }
  // This rank may have come last, in some of them.
  if (!checked(thread || g_rank != 0 || g_size == 1 || unfinished > 0)) fail("something goes on without the thread");
  MPI_Comm_free(&comm);
}

// Ranks that disagree get an error from the request, and go on.
void errors() {
  if (g_size == 1) return;
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);  // where Open MPI 4.1 reports those of such requests
  Memory memory(Where::device, 100 * sizeof(int));
  MPI_Request requests[2];
  MPI_Iallreduce(MPI_IN_PLACE, memory.at(0), g_rank == 1 ? 5 : 4, MPI_INT, MPI_SUM, comm, &requests[0]);
  MPI_Ibcast(memory.at(400 - 4), 1, MPI_INT, 0, comm, &requests[1]);
  if (!checked(MPI_Wait(&requests[0], MPI_STATUS_IGNORE) != MPI_SUCCESS)) fail("different counts have succeeded");
  if (!checked(MPI_Wait(&requests[1], MPI_STATUS_IGNORE) == MPI_SUCCESS)) fail("the next call has failed");
  MPI_Comm_free(&comm);
}

void with_one_thread() {
  int devices = 1;
  need(gpucollDeviceCount(&devices), "gpucollDeviceCount");
  // Of ranks that share devices one may launch first what another one has not come to (docs/adr/0014).
  g_keep_memory = g_size > devices;
  MPI_Comm copy, half;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  MPI_Comm_split(MPI_COMM_WORLD, g_rank % 2, -g_rank, &half);
  runs_on_the_device();
  without_calling_mpi();
  share_launches();
  stress("device memory", 1, Kinds::device, {MPI_COMM_WORLD});
  stress("host memory", 2, Kinds::host, {MPI_COMM_WORLD});
  stress("mixed memory", 3, Kinds::mixed, {MPI_COMM_WORLD});
  stress("several communicators", 4, Kinds::mixed, {MPI_COMM_WORLD, copy, half});
  stress("several communicators on devices", 5, Kinds::device, {MPI_COMM_WORLD, copy, half});
  Flight flight("a hundred under way");
  for (uint64_t call = 0; call < 100; call++) flight.start(copy, mix(31, call), Kinds::mixed);
  flight.complete_all(g_rank % 2);
  freed_communicators();
  duplicates();
  MPI_Comm another;
  MPI_Comm_dup(copy, &another);
  memory_goes_beside({copy, another, MPI_COMM_WORLD});
  MPI_Comm_free(&another);
  errors();
  MPI_Comm_free(&half);
  MPI_Comm_free(&copy);
}

// Each thread starts on its own communicator; what is started lies where both threads complete it.
void with_threads() {
  g_keep_memory = true;
  MPI_Comm comms[2];
  for (MPI_Comm& comm : comms) MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  auto work = [&](int thread) {
    use_own_device();
    Flight flight(thread ? "second thread" : "first thread");
    for (uint64_t round = 0; round < kRounds; round++) {
      flight.start(comms[thread], mix(61 + static_cast<uint64_t>(thread), round), Kinds::mixed);
      flight.complete_some(mix(71, round, static_cast<uint64_t>(g_rank)));
      if (flight.size() >= kUnderWay) flight.complete_all();
    }
    flight.complete_all();
  };
  std::thread other(work, 1);
  work(0);
  other.join();
  // One thread waits for what the other has started on the same communicator.
  for (uint64_t round = 0; round < 20; round++) {
    Flight first("completed by another thread"), second("completed by its own thread");
    for (uint64_t call = 0; call < 6; call++) first.start(comms[0], mix(81, round, call), Kinds::mixed);
    std::thread helper([&] {
      use_own_device();
      first.complete_all(round % 2);
    });
    for (uint64_t call = 0; call < 6; call++) second.start(comms[0], mix(82, round, call), Kinds::mixed);
    second.complete_all();
    helper.join();
  }
  for (MPI_Comm& comm : comms) MPI_Comm_free(&comm);
}

}  // namespace

int main(int argc, char** argv) { return main_of(argc, argv, "nonblocking", with_one_thread, with_threads); }
