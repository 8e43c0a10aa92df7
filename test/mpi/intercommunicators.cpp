// Collectives between two groups of any sizes: what arrives, in which memory, whether it ran on the device, and that
// nothing else has changed. Blocking, nonblocking and persistent; elements with gaps; host memory on some ranks.
// usage: intercommunicators [CASES [SEED]]
//
// Everything about a case follows from its seed, so every rank knows every other rank's arguments. Whole allocations
// are compared, so a byte written where none belongs is seen.
#include <algorithm>
#include <type_traits>

#include "without_bytes.h"

namespace {
using namespace mpi_test;

uint64_t u(int value) { return static_cast<uint64_t>(value); }
size_t z(int value) { return static_cast<size_t>(value); }

// Two groups, sides 0 and 1, as this rank sees them.
struct Bridge {
  std::string name;
  MPI_Comm comm;
  int side, rank, sizes[2];
  int size() const { return sizes[side]; }
  int peers() const { return sizes[1 - side]; }
};

enum class Function {
  allgather,
  allgatherv,
  alltoall,
  alltoallv,
  alltoallw,
  bcast,
  gather,
  gatherv,
  scatter,
  scatterv
};
const char* const kNames[] = {"allgather", "allgatherv", "alltoall", "alltoallv", "alltoallw",
                              "bcast",     "gather",     "gatherv",  "scatter",   "scatterv"};
constexpr int kFunctions = 10;

// An element of two ints, next to each other or with a gap.
struct Element {
  MPI_Datatype type;
  int extent, second;  // bytes
};

class Case {
 public:
  Case(uint64_t seed, const Bridge& bridge, const Element* elements) : seed_(seed), bridge_(bridge) {
    function_ = static_cast<Function>(draw(1) % kFunctions);
    const int sizes[] = {0, 1, 3, 17, 300, 3000};
    most_ = sizes[draw(2) % 6];
    memory_ = static_cast<int>(draw(3) % 4);
    sent_ = elements[draw(4) % 3 == 0];
    received_ = elements[draw(5) % 3 == 0];
    form_ = kForms[draw(6) % 3];
    root_side_ = static_cast<int>(draw(7) % 2);
    root_ = static_cast<int>(draw(8) % u(bridge.sizes[root_side_]));
  }
  void run() const;

 private:
  using F = Function;
  uint64_t draw(uint64_t what, int a = 0, int b = 0) const { return mix(mix(seed_, what), u(a), u(b)); }
  std::string name() const {
    return "case " + std::to_string(seed_) + ": " + name_of(form_) + kNames[static_cast<int>(function_)] +
           " of up to " + std::to_string(most_) + " between groups of " + bridge_.name +
           (rooted() ? ", root " + std::to_string(root_) + " of group " + std::to_string(root_side_) : "");
  }
  bool is(F f) const { return function_ == f; }
  bool rooted() const { return function_ >= F::bcast; }
  bool from_root() const { return is(F::bcast) || is(F::scatter) || is(F::scatterv); }
  bool is_root() const { return bridge_.side == root_side_ && bridge_.rank == root_; }
  bool at_root_side() const { return bridge_.side == root_side_; }

  // Elements from a rank of a side to one of the other side.
  int sent(int side, int from, int to) const;
  // Whether a block of the sender's goes to one rank alone, and whether the receiver has one for each sender.
  bool blocks_sent() const {
    return (is(F::alltoall) || is(F::alltoallv) || is(F::alltoallw) || is(F::scatter) || is(F::scatterv));
  }
  bool blocks_received() const { return !rooted() || is(F::gather) || is(F::gatherv); }
  bool varies() const {
    return is(F::allgatherv) || is(F::alltoallv) || is(F::alltoallw) || is(F::gatherv) || is(F::scatterv);
  }
  // Where a block begins, in elements: of the v-variants in another order, with gaps.
  int place(int block, int n, int equal) const {
    return varies() ? (most_ + 20) * ((block * 5 + 2) % (n % 5 ? n : n + 1)) : equal * block;
  }
  int value(int side, int from, int block, int i) const {
    return static_cast<int>(draw(9, side * 100 + from, block * 10000 + i));
  }
  Where where(int side, int rank) const {
    return memory_ > 0 || draw(10, side, rank) % 4 ? Where::device : Where::host;
  }
  bool has_bytes(int side, int rank) const;
  struct Runs {
    uint64_t least, most;
  };
  Runs on_device() const;
  size_t room(const Element& element) const {
    return z((std::max(bridge_.size(), bridge_.peers()) + 2) * (most_ + 20) * element.extent / 4 + 4);
  }
  std::vector<int> send_image() const;
  void expect(std::vector<int>& image) const;
  int call(void* send, void* recv) const;

  uint64_t seed_;
  const Bridge& bridge_;
  Function function_;
  int most_, memory_, root_side_, root_;
  Element sent_, received_;
  Form form_;
};

int Case::sent(int side, int from, int to) const {
  if (rooted() && side != (from_root() ? root_side_ : 1 - root_side_)) return 0;
  if (rooted() && (from_root() ? from : to) != root_) return 0;
  switch (function_) {
    case F::allgather: return side == 0 ? most_ : most_ / 2;
    case F::allgatherv: return static_cast<int>(draw(11, side, from) % u(most_ + 1));
    case F::alltoallv:
    case F::alltoallw: return static_cast<int>(draw(12, side * 100 + from, to) % u(most_ + 1));
    case F::gatherv:
    case F::scatterv: return static_cast<int>(draw(13, from_root() ? to : from) % u(most_ + 1));
    default: return most_;
  }
}

bool Case::has_bytes(int side, int rank) const {
  bool any = false;
  for (int r = 0; r < bridge_.sizes[1 - side]; r++) any |= sent(side, rank, r) > 0 || sent(1 - side, r, rank) > 0;
  return any;
}

// How often it runs on the device: ranks with host memory may have learned to wait for the others.
Case::Runs Case::on_device() const {
  Runs runs = {0, 0};
  // MPI does not tell who is beside the root of these of how much the call is.
  const bool untold =
      (is(F::bcast) && form_ != Form::persistent) || (form_ == Form::blocking && (is(F::gather) || is(F::scatter)));
  if (untold && bridge_.sizes[root_side_] > 1) return runs;
  bool all = true;
  for (int side = 0; side < 2; side++)
    for (int r = 0; r < bridge_.sizes[side]; r++) {
      if (!has_bytes(side, r)) continue;
      if (where(side, r) == Where::device) runs.most = 1;
      all = all && where(side, r) == Where::device;
    }
  if (all) runs.least = runs.most;
  return runs;
}

int* at(std::vector<int>& image, const Element& element, int index, bool second) {
  return &image[z((index * element.extent + (second ? element.second : 0)) / 4)];
}

std::vector<int> Case::send_image() const {
  std::vector<int> image(room(sent_));
  for (size_t i = 0; i < image.size(); i++) image[i] = static_cast<int>(draw(14, static_cast<int>(i)));
  for (int to = 0; to < bridge_.peers(); to++) {
    const int n = sent(bridge_.side, bridge_.rank, to), block = blocks_sent() ? to : 0;
    for (int i = 0; i < 2 * n; i++)
      *at(image, sent_, (blocks_sent() ? place(block, bridge_.peers(), n) : 0) + i / 2, i % 2) =
          value(bridge_.side, bridge_.rank, block, i);
  }
  return image;
}

void Case::expect(std::vector<int>& image) const {
  for (int from = 0; from < bridge_.peers(); from++) {
    const int n = sent(1 - bridge_.side, from, bridge_.rank),
              first = blocks_received() ? place(from, bridge_.peers(), n) : 0;
    for (int i = 0; i < 2 * n; i++)
      *at(image, received_, first + i / 2, i % 2) = value(1 - bridge_.side, from, blocks_sent() ? bridge_.rank : 0, i);
  }
}

#define GC_CALL(...) GC_CALL_IN_FORM(form_, bridge_.comm, __VA_ARGS__)

int Case::call(void* send, void* recv) const {
  const int side = bridge_.side, me = bridge_.rank, peers = bridge_.peers();
  std::vector<int> scounts, rcounts, splaces, rplaces, sbytes, rbytes;
  for (int p = 0; p < peers; p++) {
    scounts.push_back(sent(side, me, p));
    rcounts.push_back(sent(1 - side, p, me));
    splaces.push_back(place(p, peers, 0));
    rplaces.push_back(place(p, peers, 0));
    sbytes.push_back(splaces.back() * sent_.extent);
    rbytes.push_back(rplaces.back() * received_.extent);
  }
  const std::vector<MPI_Datatype> stypes(z(peers), sent_.type), rtypes(z(peers), received_.type);
  // Beside the root arguments mean nothing.
  const bool beside = rooted() && at_root_side() && !is_root();
  if (beside && draw(15, me) % 2) send = recv = nullptr;
  const int root = !at_root_side() ? root_ : is_root() ? MPI_ROOT : MPI_PROC_NULL;
  const int leaf = rooted() && !at_root_side() ? root_ : 0;  // the peer that matters where there is one
  // Open MPI ends MPI_Ibcast of 0 elements before it has counted it, and does not find what belongs together
  // afterwards.
  const bool counts = is(F::bcast) && form_ != Form::blocking;
  const int scount = !beside ? scounts[z(leaf)] : counts ? most_ : static_cast<int>(draw(16, me) % 3);
  const int rcount = beside ? static_cast<int>(draw(17, me) % 3) : rcounts[z(leaf)];
  const MPI_Datatype st = sent_.type, rt = received_.type;
  MPI_Request request = MPI_REQUEST_NULL;
  switch (function_) {
    case F::allgather: return GC_CALL(Allgather, allgather, send, scount, st, recv, rcount, rt);
    case F::allgatherv:
      return GC_CALL(Allgatherv, allgatherv, send, scount, st, recv, rcounts.data(), rplaces.data(), rt);
    case F::alltoall: return GC_CALL(Alltoall, alltoall, send, scount, st, recv, rcount, rt);
    case F::alltoallv:
      return GC_CALL(Alltoallv, alltoallv, send, scounts.data(), splaces.data(), st, recv, rcounts.data(),
                     rplaces.data(), rt);
    case F::alltoallw:
      return GC_CALL(Alltoallw, alltoallw, send, scounts.data(), sbytes.data(), stypes.data(), recv, rcounts.data(),
                     rbytes.data(), rtypes.data());
    case F::bcast: {
      void* const buffer = at_root_side() ? send : recv;
      return GC_CALL(Bcast, bcast, buffer, at_root_side() ? scount : rcount, at_root_side() ? st : rt, root);
    }
    case F::gather: return GC_CALL(Gather, gather, send, scount, st, recv, rcount, rt, root);
    case F::gatherv: return GC_CALL(Gatherv, gatherv, send, scount, st, recv, rcounts.data(), rplaces.data(), rt, root);
    case F::scatter: return GC_CALL(Scatter, scatter, send, scount, st, recv, rcount, rt, root);
    default: return GC_CALL(Scatterv, scatterv, send, scounts.data(), splaces.data(), st, recv, rcount, rt, root);
  }
}

uint64_t runs() { return gpucoll_abi(GC_ABI_VERSION)->runs(); }

void Case::run() const {
  const std::vector<int> send = send_image();
  std::vector<int> before(room(received_));
  for (size_t i = 0; i < before.size(); i++) before[i] = static_cast<int>(draw(18, static_cast<int>(i)));
  std::vector<int> after = before, sent(send.size()), got(before.size());
  expect(after);
  const Where here = where(bridge_.side, bridge_.rank);
  Memory input(here, send.size() * sizeof(int)), output(here, before.size() * sizeof(int));
  input.write(send.data());
  output.write(before.data());
  const uint64_t ran = runs();
  const int rc = call(input.at(0), output.at(0));
  const uint64_t times = runs() - ran;
  if (!checked(rc == MPI_SUCCESS)) fail("%s: error %d", name().c_str(), rc);
  input.read(sent.data());
  output.read(got.data());
  if (!checked(sent == send)) fail("%s in %s memory: the send buffer has changed", name().c_str(), name_of(here));
  const auto wrong = std::mismatch(got.begin(), got.end(), after.begin()).first - got.begin();
  if (!checked(got == after))
    fail("%s in %s memory: differs from int %td of %zu on", name().c_str(), name_of(here), wrong, got.size());
  if (!checked(times >= on_device().least && times <= on_device().most))
    fail("%s: ran %d times on the device", name().c_str(), static_cast<int>(times));
}

// ---- reductions: each group gets what the other one has reduced ----

enum class Reduction { allreduce, reduce, reduce_scatter, reduce_scatter_block };
const char* const kReductions[] = {"allreduce", "reduce", "reduce_scatter", "reduce_scatter_block"};

class ReductionCase {
 public:
  ReductionCase(uint64_t seed, const Bridge& bridge) : seed_(seed), bridge_(bridge) {
    function_ = static_cast<Reduction>(mix(seed, 1) % 4);
    const int sizes[] = {1, 3, 40, 2000};
    // Both groups have as many elements, each a multiple of its ranks.
    count_ = sizes[mix(seed, 2) % 4] * bridge.sizes[0] * bridge.sizes[1];
    pairs_ = mix(seed, 3) % 3 == 0 && function_ != Reduction::reduce_scatter;
    on_host_ = mix(seed, 4) % 4 == 0;  // what the ranks of group 1 give, or get
    form_ = kForms[mix(seed, 5) % 3];
    host_rank_ = mix(seed, 9) % 5 ? -1 : static_cast<int>(mix(seed, 10) % u(bridge.sizes[1]));
    root_side_ = static_cast<int>(mix(seed, 6) % 2);
    root_ = static_cast<int>(mix(seed, 7) % u(bridge.sizes[root_side_]));
  }
  void run() const;

 private:
  struct Pair {
    double value;
    int place, gap;
  };
  bool is(Reduction r) const { return function_ == r; }
  std::string name() const {
    return std::string(name_of(form_)) + kReductions[static_cast<int>(function_)] + " of " + std::to_string(count_) +
           (pairs_ ? " pairs" : " numbers") + " between groups of " + bridge_.name;
  }
  int given(int side, int rank, int i) const { return static_cast<int>(mix(seed_, u(side * 100 + rank), u(i)) % 1000); }
  Pair reduced(int side, int i) const {
    Pair r = {-1, 0, 77};
    for (int rank = 0; rank < bridge_.sizes[side]; rank++) {
      const double mine = given(side, rank, i);
      r.value = pairs_ ? std::max(r.value, mine) : std::max(r.value, 0.0) + mine;
    }
    for (int rank = bridge_.sizes[side] - 1; rank >= 0; rank--)
      if (given(side, rank, i) == r.value) r.place = rank;
    return r;
  }
  // Of MPI_Reduce_scatter: cut unevenly, on each side elsewhere.
  std::vector<int> parts() const {
    std::vector<int> counts(z(bridge_.size()), count_ / bridge_.size());
    if (is(Reduction::reduce_scatter) && bridge_.size() > 1) counts.front() = 0, counts.back() *= 2;
    return counts;
  }
  template <class Element>
  void run_with(MPI_Datatype type, MPI_Op op) const;
  int call(const void* send, void* recv, MPI_Datatype type, MPI_Op op) const;

  uint64_t seed_;
  const Bridge& bridge_;
  Reduction function_;
  int count_, root_side_, root_;
  int host_rank_;  // of group 1, all of whose memory is the host's; -1: none
  bool pairs_, on_host_;
  Form form_;
};

int ReductionCase::call(const void* send, void* recv, MPI_Datatype type, MPI_Op op) const {
  const std::vector<int> counts = parts();
  const bool here = bridge_.side == root_side_;
  const int root = !here ? root_ : bridge_.rank == root_ ? MPI_ROOT : MPI_PROC_NULL;
  MPI_Request request = MPI_REQUEST_NULL;
  switch (function_) {
    case Reduction::allreduce: return GC_CALL(Allreduce, allreduce, send, recv, count_, type, op);
    case Reduction::reduce: return GC_CALL(Reduce, reduce, send, recv, count_, type, op, root);
    case Reduction::reduce_scatter: return GC_CALL(Reduce_scatter, reduce_scatter, send, recv, counts.data(), type, op);
    default: return GC_CALL(Reduce_scatter_block, reduce_scatter_block, send, recv, counts[0], type, op);
  }
}

template <class Element>
Element element_of(double value, int place) {
  Element e = {};
  std::memset(static_cast<void*>(&e), 77, sizeof e);
  if constexpr (std::is_same_v<Element, int>)
    e = static_cast<int>(value);
  else
    e.value = value, e.place = place;
  return e;
}

template <class Element>
void ReductionCase::run_with(MPI_Datatype type, MPI_Op op) const {
  const size_t n = z(count_);
  std::vector<Element> send(n), before(n + 3, element_of<Element>(-5, -5)), got(n + 3);
  for (int i = 0; i < count_; i++) send[z(i)] = element_of<Element>(given(bridge_.side, bridge_.rank, i), bridge_.rank);
  std::vector<Element> after = before;
  const std::vector<int> counts = parts();
  int first = 0, mine = count_;
  if (is(Reduction::reduce)) mine = bridge_.side == root_side_ && bridge_.rank == root_ ? count_ : 0;
  if (function_ >= Reduction::reduce_scatter) {
    mine = counts[z(bridge_.rank)];
    for (int r = 0; r < bridge_.rank; r++) first += counts[z(r)];
  }
  for (int i = 0; i < mine; i++) {
    const Pair sum = reduced(1 - bridge_.side, first + i);
    after[z(i)] = element_of<Element>(sum.value, sum.place);
  }
  // The other side of the call is on the device: else it would go through the host.
  const bool gives_host = mix(seed_, 8) % 2, all_host = bridge_.side == 1 && bridge_.rank == host_rank_;
  const bool any_host = all_host || (on_host_ && bridge_.side == 1 && !is(Reduction::reduce));
  Memory input(all_host || (any_host && gives_host) ? Where::host : Where::device, n * sizeof(Element));
  Memory output(all_host || (any_host && !gives_host) ? Where::host : Where::device, before.size() * sizeof(Element));
  input.write(send.data());
  output.write(before.data());
  const uint64_t ran = runs();
  const int rc = call(input.at(0), output.at(0), type, op);
  const bool on_device = runs() - ran > 0;
  output.read(got.data());
  if (!checked(rc == MPI_SUCCESS)) fail("%s: error %d", name().c_str(), rc);
  if (!checked(std::memcmp(got.data(), after.data(), got.size() * sizeof(Element)) == 0))
    fail("%s: other results", name().c_str());
  // Beside the root of these nobody is told of how much the call is.
  const bool told = !is(Reduction::reduce) || bridge_.sizes[root_side_] == 1;
  const bool beside_root = is(Reduction::reduce) && root_side_ == 1 && host_rank_ != root_;
  const bool expected = told && (host_rank_ < 0 || beside_root);
  // A rank that gives host memory and gets nothing sends all through the host.
  if (on_host_ && is(Reduction::reduce_scatter)) return;
  // A rank with host memory alone may have learned to wait for the others.
  if (form_ != Form::blocking && host_rank_ >= 0) return;
  if (!checked(on_device == expected)) fail("%s: %s on the device", name().c_str(), on_device ? "ran" : "did not run");
}

void ReductionCase::run() const {
  if (pairs_)
    run_with<Pair>(MPI_DOUBLE_INT, MPI_MAXLOC);
  else
    run_with<int>(MPI_INT, MPI_SUM);
}

// ---- freed while calls are under way ----

void free_under_way(const Bridge& b) {
  constexpr int kCalls = 5, kCount = 700;
  MPI_Comm dup;
  MPI_Comm_dup(b.comm, &dup);
  const size_t n = kCount * z(b.peers());
  Memory input(Where::device, kCalls * kCount * sizeof(int)), output(Where::device, kCalls * n * sizeof(int));
  std::vector<int> sent, got(kCalls * n);
  for (int i = 0; i < kCalls * kCount; i++) sent.push_back(b.rank * 100000 + i);
  input.write(sent.data());
  MPI_Request requests[kCalls];
  for (int c = 0; c < kCalls; c++)
    MPI_Iallgather(input.as<int>() + c * kCount, kCount, MPI_INT, output.as<int>() + z(c) * n, kCount, MPI_INT, dup,
                   &requests[c]);
  MPI_Comm_free(&dup);
  MPI_Waitall(kCalls, requests, MPI_STATUSES_IGNORE);
  output.read(got.data());
  bool right = true;
  for (size_t i = 0; i < got.size(); i++)
    right = right && got[i] == static_cast<int>(i % n / kCount * 100000 + i / n * kCount + i % kCount);
  if (!checked(right)) fail("between groups of %s: wrong after the communicator was freed", b.name.c_str());
}

// Beside the root counts mean nothing, but where this one is 0 Open MPI makes an empty request without us.
void reduce_beside_root(const Bridge& b) {
  MPI_Comm dup;
  MPI_Comm_dup(b.comm, &dup);
  const int root = b.side == 1 ? 0 : b.rank == 0 ? MPI_ROOT : MPI_PROC_NULL;
  int value = 1;
  Memory input(Where::device, sizeof value), output(Where::device, sizeof value);
  input.write(&value);
  MPI_Request request;
  GC_INIT(Reduce)
  (input.at(0), output.at(0), root != MPI_PROC_NULL, MPI_INT, MPI_SUM, root, dup, MPI_INFO_NULL, &request);
  if (root != MPI_PROC_NULL) MPI_Start(&request), MPI_Wait(&request, MPI_STATUS_IGNORE);
  output.read(&value);
  if (!checked(root != MPI_ROOT || value == b.peers())) fail("the root of a persistent reduce has %d", value);
  MPI_Request_free(&request);
  without_bytes::check_sums(dup, "a reduce with no count beside its root", true);
  MPI_Comm_free(&dup);
}

// ---- groups ----

// Open MPI's own MPI_Scatterv between groups sends the array of counts to the other group. A program may have all that
// it allocates in managed memory.
void counts_in_managed_memory(const Bridge& b) {
  const size_t n = z(b.peers()), bytes = 2 * n * sizeof(int);
  std::vector<int> plain(2 * n), data(n);
  const bool managed = ManagedMemory::is_wanted();
  int* const counts = managed ? static_cast<int*>(ManagedMemory::instance().allocate(bytes)) : plain.data();
  int got = -1;
  for (size_t i = 0; i < n; i++) {
    counts[i] = 1;
    counts[n + i] = data[i] = static_cast<int>(i);
  }
  const int root = b.side == 1 ? 0 : b.rank == 0 ? MPI_ROOT : MPI_PROC_NULL;
  MPI_Scatterv(data.data(), counts, counts + n, MPI_INT, &got, 1, MPI_INT, root, b.comm);
  if (!checked(b.side == 0 || got == b.rank)) fail("scatterv with counts in managed memory: %d", got);
  if (managed) ManagedMemory::instance().release(counts);
}

// Side 0 are `first` ranks of the world from `from` on, in a ring; side 1 the others.
void run_bridge(int from, int first, int cases, uint64_t seed, const Element* elements) {
  const int side = (g_rank - from + g_size) % g_size >= first;
  MPI_Comm half, bridge;
  MPI_Comm_split(MPI_COMM_WORLD, side, g_rank, &half);
  std::vector<int> leaders(2, g_size);
  for (int r = g_size - 1; r >= 0; r--) leaders[(r - from + g_size) % g_size >= first] = r;
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, leaders[z(1 - side)], 5, &bridge);
  Bridge b = {
      std::to_string(first) + " and " + std::to_string(g_size - first), bridge, side, 0, {first, g_size - first}};
  MPI_Comm_rank(bridge, &b.rank);
  MPI_Comm_free(&half);
  for (int i = 0; i < cases; i++) Case(mix(seed, u(from * 100 + first), u(i)), b, elements).run();
  for (int i = 0; i < cases / 2; i++) ReductionCase(mix(seed, u(7000 + from * 100 + first), u(i)), b).run();
  for (int i = 0; i < 3; i++) free_under_way(b);
  reduce_beside_root(b);
  counts_in_managed_memory(b);
  without_bytes::test_between(b.comm, b.side == 0 ? (b.rank == 0 ? MPI_ROOT : MPI_PROC_NULL) : 0);
  if (from % 2)
    MPI_Comm_disconnect(&bridge);
  else
    MPI_Comm_free(&bridge);
}

}  // namespace

int main(int argc, char** argv) {
  Mpi mpi(argc, argv);
  const int cases = argc > 1 ? std::atoi(argv[1]) : 80;
  const uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 0) : 5000;
  int devices = 0;
  need(gpucollDeviceCount(&devices), "gpucollDeviceCount");
  need(gpucollSetDevice(g_rank % devices), "gpucollSetDevice");
  Memory first_use(Where::device, 1);  // before it, a rank that is left out takes it that there are no devices
  Element elements[2] = {{MPI_DATATYPE_NULL, 8, 4}, {MPI_DATATYPE_NULL, 12, 8}};
  MPI_Type_contiguous(2, MPI_INT, &elements[0].type);
  MPI_Type_vector(2, 1, 2, MPI_INT, &elements[1].type);
  for (Element& element : elements) MPI_Type_commit(&element.type);
  for (int first = 1; first < g_size; first++)
    for (int from = 0; from < 2; from++) run_bridge(from, first, cases, seed, elements);
  for (Element& element : elements) MPI_Type_free(&element.type);
  return mpi.finish("intercommunicators");
}
