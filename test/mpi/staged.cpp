// Every collective on device memory against the same call on host memory: all kinds of placement, derived types with
// gaps and negative lower bounds, zero counts, negative displacements, intercommunicators, neighbourhoods, in place;
// blocking, nonblocking and persistent. Whole allocations are compared, so a byte written where none belongs is seen.
#include <malloc.h>

#include <functional>
#include <memory>

#include "mpi_test.h"

namespace {
using namespace mpi_test;

constexpr size_t kRoom = 32768;          // bytes of a buffer
constexpr ptrdiff_t kStart = kRoom / 2;  // where the pointer that MPI gets points to

using Refill = std::function<void()>;
using Call = std::function<void(Form, void* send, void* recv, const Refill&)>;

// Completes what `start` began. A persistent call is run twice, from the same input.
void complete(Form form, MPI_Request* request, const Refill& refill) {
  if (form == Form::nonblocking) MPI_Wait(request, MPI_STATUS_IGNORE);
  if (form != Form::persistent) return;
  for (int run = 0; run < 2; run++) {
    if (run > 0) refill();
    MPI_Start(request);
    MPI_Wait(request, MPI_STATUS_IGNORE);
  }
  MPI_Request_free(request);
}

// MPI_X(arguments, comm) in all its forms; x is the name in lower case.
#define GC_CALL(X, x, comm, ...)                                                                   \
  [=](Form form, [[maybe_unused]] void* send, [[maybe_unused]] void* recv, const Refill& refill) { \
    MPI_Request request = MPI_REQUEST_NULL;                                                        \
    if (form == Form::blocking) MPI_##X(__VA_ARGS__, comm);                                        \
    if (form == Form::nonblocking) MPI_I##x(__VA_ARGS__, comm, &request);                          \
    if (form == Form::persistent) GC_INIT(X)(__VA_ARGS__, comm, MPI_INFO_NULL, &request);          \
    complete(form, &request, refill);                                                              \
  }

struct Case {
  std::string name;
  Call call;
  bool in_place = false;  // where this rank passes MPI_IN_PLACE as send buffer
};

// Which of the two buffers is in device memory on this rank.
struct Placement {
  const char* name;
  bool send, recv;
};

std::vector<Placement> placements(uint64_t seed) {
  const bool one = g_rank == static_cast<int>(seed % static_cast<uint64_t>(g_size));
  const uint64_t random = mix(seed, static_cast<uint64_t>(g_rank));
  return {{"device everywhere", true, true},
          {"device send buffers", true, false},
          {"device receive buffers", false, true},
          {"device on one rank", one, one},
          {"device at random", (random & 1) != 0, (random & 2) != 0}};
}

struct Images {
  std::vector<char> send, recv;
};

Images inputs(uint64_t seed) {
  Images in{std::vector<char>(kRoom), std::vector<char>(kRoom)};
  for (size_t i = 0; i < kRoom; i++) {
    // Small ints in every aligned position, so that sums and products of pairs stay defined.
    in.send[i] = i % 4 == 0 ? static_cast<char>(mix(seed, static_cast<uint64_t>(g_rank), i) % 23) : 0;
    in.recv[i] = i % 4 == 0 ? static_cast<char>(mix(seed + 1, static_cast<uint64_t>(g_rank), i) % 23) : 0;
  }
  return in;
}

Images run(const Case& test, Form form, const Images& in, Where send_where, Where recv_where) {
  Memory send(send_where, kRoom), recv(recv_where, kRoom);
  auto fill = [&] {
    send.write(in.send.data());
    recv.write(in.recv.data());
  };
  fill();
  test.call(form, send.at(kStart), recv.at(kStart), fill);
  Images out{std::vector<char>(kRoom), std::vector<char>(kRoom)};
  send.read(out.send.data());
  recv.read(out.recv.data());
  return out;
}

void compare(const std::vector<char>& got, const std::vector<char>& expected, const char* side,
             const std::string& what) {
  if (checked(got == expected)) return;
  for (size_t i = 0; i < kRoom; i++) {
    if (got[i] == expected[i]) continue;
    return fail("%s: %s buffer, byte %td: %d instead of %d", what.c_str(), side, static_cast<ptrdiff_t>(i) - kStart,
                got[i], expected[i]);
  }
}

void run_case(const Case& test, uint64_t seed) {
  const Images in = inputs(seed);
  for (Form form : kForms) {
    // From the same form: MPI's own differ, as for neighbours that are the same rank twice.
    const Images expected = run(test, form, in, Where::host, Where::host);
    for (const Placement& place : placements(seed)) {
      const Images got =
          run(test, form, in, place.send ? Where::device : Where::host, place.recv ? Where::device : Where::host);
      const std::string what = std::string(name_of(form)) + test.name + ", " + place.name;
      compare(got.send, in.send, "send", what);
      compare(got.recv, expected.recv, "receive", what);
    }
  }
}

// ---- types and counts ----

struct Type {
  const char* name;
  MPI_Datatype type;
  int extent;
};

std::vector<Type> make_types() {
  std::vector<Type> types{{"int", MPI_INT, 4}};
  MPI_Datatype gaps, low, spread;
  MPI_Type_vector(2, 1, 2, MPI_INT, &gaps);
  MPI_Type_commit(&gaps);
  types.push_back({"vector", gaps, 12});
  const int lengths[2] = {1, 2};
  const MPI_Aint places[2] = {-8, 4};
  MPI_Type_create_hindexed(2, lengths, places, MPI_INT, &low);
  MPI_Type_create_resized(low, -8, 24, &spread);
  MPI_Type_commit(&spread);
  MPI_Type_free(&low);
  types.push_back({"negative lower bound", spread, 24});
  types.push_back({"short_int", MPI_SHORT_INT, 8});
  return types;
}

// Elements that rank `from` sends to rank `to`: some of them none.
int count_of(int from, int to) { return (2 * from + to + 1) % 4; }

// The counts and displacements of n blocks of up to 3 elements, in descending order around the pointer, with gaps.
struct Blocks {
  std::vector<int> counts, places, byte_places;
  std::vector<MPI_Aint> far_places;
  std::vector<MPI_Datatype> types;
  Blocks(int n, const Type& type, const std::function<int(int)>& count) {
    for (int i = 0; i < n; i++) {
      counts.push_back(count(i));
      places.push_back(4 * (n / 2 - i));
      byte_places.push_back(places.back() * type.extent);
      far_places.push_back(places.back() * type.extent);
      types.push_back(type.type);
    }
  }
};

// Elements of "vector" as maps x -> a x + b (a, b: ints 0 and 2 of every three), one after the other: associative, but
// the order of the ranks is seen.
void compose_maps(void* in, void* inout, int* count, MPI_Datatype*) {
  const auto* first = static_cast<const uint32_t*>(in);
  auto* second = static_cast<uint32_t*>(inout);
  for (int i = 0; i < *count; i++, first += 3, second += 3) {
    second[2] += first[2] * second[0];
    second[0] *= first[0];
  }
}

// ---- cases ----

// What a communicator looks like from this rank: roots and sizes of a rooted or all-to-all operation.
struct Group {
  std::string name;
  MPI_Comm comm;
  int peers = 0;  // ranks on the other side
  int size = 0;   // of the own group
  int rank = 0;
  int root = 0;    // as passed: MPI_ROOT and MPI_PROC_NULL on the root's side of an intercommunicator
  int sender = 0;  // the index that the peers know this rank by
  bool inter = false, is_root = false;
};

Group intra(const std::string& name, MPI_Comm comm, int root) {
  Group g;
  g.name = name;
  g.comm = comm;
  MPI_Comm_rank(comm, &g.rank);
  MPI_Comm_size(comm, &g.size);
  g.peers = g.size;
  g.root = root % g.size;
  g.is_root = g.rank == g.root;
  g.sender = g.rank;
  return g;
}

Group inter(MPI_Comm comm, bool root_side) {
  Group g = intra("intercommunicator", comm, 0);
  MPI_Comm_remote_size(comm, &g.peers);
  g.inter = true;
  g.is_root = root_side && g.rank == g.size - 1;
  int root_group = root_side ? g.size : g.peers;
  g.root = !root_side ? root_group - 1 : g.is_root ? MPI_ROOT : MPI_PROC_NULL;
  return g;
}

void exchange_cases(std::vector<Case>& cases, const Group& g, const Type& t, const std::string& in) {
  const MPI_Comm c = g.comm;
  const MPI_Datatype d = t.type;
  const int me = g.sender;
  auto sends = std::make_shared<Blocks>(g.peers, t, [me](int to) { return count_of(me, to); });
  auto receives = std::make_shared<Blocks>(g.peers, t, [me](int from) { return count_of(from, me); });
  auto gathers = std::make_shared<Blocks>(g.peers, t, [](int from) { return count_of(from, 1); });
  cases.push_back({"allgather" + in, GC_CALL(Allgather, allgather, c, send, 3, d, recv, 3, d)});
  cases.push_back({"allgatherv" + in, GC_CALL(Allgatherv, allgatherv, c, send, count_of(me, 1), d, recv,
                                              gathers->counts.data(), gathers->places.data(), d)});
  cases.push_back({"alltoall" + in, GC_CALL(Alltoall, alltoall, c, send, 2, d, recv, 2, d)});
  cases.push_back({"alltoallv" + in, GC_CALL(Alltoallv, alltoallv, c, send, sends->counts.data(), sends->places.data(),
                                             d, recv, receives->counts.data(), receives->places.data(), d)});
  cases.push_back(
      {"alltoallw" + in,
       GC_CALL(Alltoallw, alltoallw, c, send, sends->counts.data(), sends->byte_places.data(), sends->types.data(),
               recv, receives->counts.data(), receives->byte_places.data(), receives->types.data())});
}

void rooted_cases(std::vector<Case>& cases, const Group& g, const Type& t, const std::string& in) {
  const MPI_Comm c = g.comm;
  const MPI_Datatype d = t.type;
  const int root = g.root;
  auto parts = std::make_shared<Blocks>(g.peers, t, [](int rank) { return count_of(rank, 1); });
  const int mine = count_of(g.sender, 1);
  // Insignificant arguments are garbage on purpose: nobody may look at them.
  const MPI_Datatype root_type = g.is_root ? d : MPI_DATATYPE_NULL;
  const int* counts = g.is_root ? parts->counts.data() : nullptr;
  const int* places = g.is_root ? parts->places.data() : nullptr;
  auto keep = parts;
  cases.push_back({"bcast" + in, GC_CALL(Bcast, bcast, c, recv, 5, d, root)});
  cases.push_back({"gather" + in, GC_CALL(Gather, gather, c, send, 2, d, recv, 2, root_type, root)});
  cases.push_back({"gatherv" + in, [keep, call = GC_CALL(Gatherv, gatherv, c, send, mine, d, recv, counts, places,
                                                         root_type, root)](auto... a) { call(a...); }});
  cases.push_back({"scatter" + in, GC_CALL(Scatter, scatter, c, send, 2, root_type, recv, 2, d, root)});
  cases.push_back({"scatterv" + in, [keep, call = GC_CALL(Scatterv, scatterv, c, send, counts, places, root_type, recv,
                                                          mine, d, root)](auto... a) { call(a...); }});
}

void reduction_cases(std::vector<Case>& cases, const Group& g, MPI_Datatype d, MPI_Op op, const std::string& in) {
  const MPI_Comm c = g.comm;
  const int root = g.root;
  auto counts = std::make_shared<std::vector<int>>();
  for (int i = 0; i < g.size; i++) counts->push_back(g.inter ? g.peers : i % 3);
  const int block = g.inter ? g.peers : 4;
  cases.push_back({"allreduce" + in, GC_CALL(Allreduce, allreduce, c, send, recv, 9, d, op)});
  cases.push_back({"reduce" + in, GC_CALL(Reduce, reduce, c, send, recv, 9, d, op, root)});
  cases.push_back(
      {"reduce_scatter" + in, GC_CALL(Reduce_scatter, reduce_scatter, c, send, recv, counts->data(), d, op)});
  cases.push_back(
      {"reduce_scatter_block" + in, GC_CALL(Reduce_scatter_block, reduce_scatter_block, c, send, recv, block, d, op)});
  if (g.inter) return;
  cases.push_back({"scan" + in, GC_CALL(Scan, scan, c, send, recv, 9, d, op)});
  cases.push_back({"exscan" + in, GC_CALL(Exscan, exscan, c, send, recv, 9, d, op)});
}

void in_place_cases(std::vector<Case>& cases, const Group& g, MPI_Datatype d, const std::string& in) {
  const MPI_Comm c = g.comm;
  const int root = g.root;
  const bool here = g.is_root;
  auto counts = std::make_shared<std::vector<int>>(static_cast<size_t>(g.size), 2);
  cases.push_back({"allgather in place" + in, GC_CALL(Allgather, allgather, c, MPI_IN_PLACE, 0, d, recv, 3, d)});
  cases.push_back({"alltoall in place" + in, GC_CALL(Alltoall, alltoall, c, MPI_IN_PLACE, 0, d, recv, 3, d)});
  cases.push_back(
      {"gather in place" + in, GC_CALL(Gather, gather, c, here ? MPI_IN_PLACE : send, 2, d, recv, 2, d, root)});
  cases.push_back(
      {"scatter in place" + in, GC_CALL(Scatter, scatter, c, send, 2, d, here ? MPI_IN_PLACE : recv, 2, d, root)});
  cases.push_back(
      {"allreduce in place" + in, GC_CALL(Allreduce, allreduce, c, MPI_IN_PLACE, recv, 9, MPI_INT, MPI_SUM)});
  cases.push_back({"reduce in place" + in,
                   GC_CALL(Reduce, reduce, c, here ? MPI_IN_PLACE : send, recv, 9, MPI_INT, MPI_SUM, root)});
  cases.push_back({"reduce_scatter in place" + in,
                   GC_CALL(Reduce_scatter, reduce_scatter, c, MPI_IN_PLACE, recv, counts->data(), MPI_INT, MPI_SUM)});
  cases.push_back({"reduce_scatter_block in place" + in,
                   GC_CALL(Reduce_scatter_block, reduce_scatter_block, c, MPI_IN_PLACE, recv, 2, MPI_INT, MPI_SUM)});
  cases.push_back({"scan in place" + in, GC_CALL(Scan, scan, c, MPI_IN_PLACE, recv, 9, MPI_INT, MPI_SUM)});
  cases.push_back({"exscan in place" + in, GC_CALL(Exscan, exscan, c, MPI_IN_PLACE, recv, 9, MPI_INT, MPI_SUM)});
}

void neighbor_cases(std::vector<Case>& cases, MPI_Comm c, int in_degree, int out_degree, const Type& t,
                    const std::string& in) {
  const MPI_Datatype d = t.type;
  auto sends = std::make_shared<Blocks>(out_degree, t, [](int) { return 2; });
  auto receives = std::make_shared<Blocks>(in_degree, t, [](int) { return 2; });
  cases.push_back(
      {"neighbor_allgather" + in, GC_CALL(Neighbor_allgather, neighbor_allgather, c, send, 2, d, recv, 2, d)});
  cases.push_back({"neighbor_allgatherv" + in, GC_CALL(Neighbor_allgatherv, neighbor_allgatherv, c, send, 2, d, recv,
                                                       receives->counts.data(), receives->places.data(), d)});
  cases.push_back({"neighbor_alltoall" + in, GC_CALL(Neighbor_alltoall, neighbor_alltoall, c, send, 2, d, recv, 2, d)});
  cases.push_back({"neighbor_alltoallv" + in,
                   GC_CALL(Neighbor_alltoallv, neighbor_alltoallv, c, send, sends->counts.data(), sends->places.data(),
                           d, recv, receives->counts.data(), receives->places.data(), d)});
  cases.push_back(
      {"neighbor_alltoallw" + in, GC_CALL(Neighbor_alltoallw, neighbor_alltoallw, c, send, sends->counts.data(),
                                          sends->far_places.data(), sends->types.data(), recv, receives->counts.data(),
                                          receives->far_places.data(), receives->types.data())});
}

void reduce_local_case(std::vector<Case>& cases) {
  cases.push_back({"reduce_local", [](Form, void* send, void* recv, const Refill&) {
                     MPI_Reduce_local(send, recv, 9, MPI_INT, MPI_SUM);
                   }});
}

// Displacements beyond 2 GiB: only the pages that are used exist.
void far_gatherv() {
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
void far_displacements() {
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
void absolute_addresses() {
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
void mixed_addresses(bool host_first, int pieces) {
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
void mixed_blocks() {
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
void interleaved_columns() {
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

void run_all(std::vector<Case>& cases) {
  uint64_t seed = 17;
  for (const Case& test : cases) run_case(test, seed++);
}

}  // namespace

int main(int argc, char** argv) {
  Mpi mpi(argc, argv);
  use_own_device();
  // For good, whatever is freed: the heap may be too far from device memory for types that lead to both.
  mallopt(M_MMAP_THRESHOLD, 128 << 10);
  far_displacements();
  const std::vector<Type> types = make_types();
  MPI_Op compose;
  MPI_Op_create(compose_maps, 0, &compose);
  std::vector<Case> cases;
  const Group world = intra("world", MPI_COMM_WORLD, 1);
  for (const Type& type : types) {
    const std::string in = std::string(" of ") + type.name;
    exchange_cases(cases, world, type, in);
    rooted_cases(cases, world, type, in);
    in_place_cases(cases, world, type.type, in);
  }
  reduction_cases(cases, world, MPI_INT, MPI_SUM, " of int");
  reduction_cases(cases, world, types[1].type, compose, " of vector by a user's operation");
  reduction_cases(cases, intra("self", MPI_COMM_SELF, 0), MPI_INT, MPI_SUM, " on self");
  exchange_cases(cases, intra("self", MPI_COMM_SELF, 0), types[1], " on self");
  rooted_cases(cases, intra("self", MPI_COMM_SELF, 0), types[1], " on self");
  reduce_local_case(cases);

  MPI_Comm half, bridge = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, g_rank % 2, g_rank, &half);
  reduction_cases(cases, intra("half", half, 2), MPI_INT, MPI_SUM, " on half");
  if (g_size > 1) {
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - g_rank % 2, 5, &bridge);
    const Group group = inter(bridge, g_rank % 2 == 1);
    exchange_cases(cases, group, types[2], " on an intercommunicator");
    rooted_cases(cases, group, types[1], " on an intercommunicator");
    reduction_cases(cases, group, MPI_INT, MPI_SUM, " on an intercommunicator");
  }

  MPI_Comm grid, ring;
  // Not periodic: Open MPI 4.1's nonblocking ones mix up the two directions where both lead to the same rank.
  int sizes[2] = {g_size, 1}, wraps[2] = {0, 0};
  MPI_Cart_create(MPI_COMM_WORLD, 2, sizes, wraps, 0, &grid);
  neighbor_cases(cases, grid, 4, 4, types[1], " on a grid with borders");
  const int left = (g_rank + g_size - 1) % g_size, right = (g_rank + 1) % g_size;
  const int sources[2] = {left, g_rank}, targets[2] = {right, g_rank};
  MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 2, sources, MPI_UNWEIGHTED, 2, targets, MPI_UNWEIGHTED, MPI_INFO_NULL,
                                 0, &ring);
  neighbor_cases(cases, ring, 2, 2, types[2], " on a ring");

  run_all(cases);
  far_gatherv();
  absolute_addresses();
  for (int pieces : {1, 2, 50})
    for (bool host_first : {false, true}) mixed_addresses(host_first, pieces);
  mixed_blocks();
  interleaved_columns();

  cases.clear();
  MPI_Comm_free(&grid);
  MPI_Comm_free(&ring);
  if (bridge != MPI_COMM_NULL) MPI_Comm_free(&bridge);
  MPI_Comm_free(&half);
  MPI_Op_free(&compose);
  return mpi.finish("staged");
}
