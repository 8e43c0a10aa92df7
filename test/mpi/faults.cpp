// Faults under MPI, one per argument: each rank that survives gets an error (or the slow right result) in time.
// faults.sh runs it and looks for the sentences. Where ranks give up, the timeout parameter is 4 s there. A second
// argument `nonblocking` has the collectives called so, and waited for.
#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "call_form.h"
#include "mpi_test.h"

namespace {
using namespace mpi_test;
using Clock = std::chrono::steady_clock;

constexpr int kMostSeconds = 60;  // less than the parameter timeout of faults.sh where a fault is to be noticed
bool g_nonblocking = false;

int wait_for(int rc, MPI_Request& request) { return rc == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : rc; }

int reduce(Memory& memory, int count, MPI_Comm comm = MPI_COMM_WORLD) {
  if (!g_nonblocking) return MPI_Allreduce(MPI_IN_PLACE, memory.at(0), count, MPI_INT, MPI_SUM, comm);
  MPI_Request request = MPI_REQUEST_NULL;
  const int rc = MPI_Iallreduce(MPI_IN_PLACE, memory.at(0), count, MPI_INT, MPI_SUM, comm, &request);
  return wait_for(rc, request);
}

int gather(Memory& memory, Memory& all, int count) {
  if (!g_nonblocking) return MPI_Allgather(memory.at(0), count, MPI_INT, all.at(0), count, MPI_INT, MPI_COMM_WORLD);
  MPI_Request request = MPI_REQUEST_NULL;
  const int rc = MPI_Iallgather(memory.at(0), count, MPI_INT, all.at(0), count, MPI_INT, MPI_COMM_WORLD, &request);
  return wait_for(rc, request);
}

bool reduces_rightly(Memory& memory, MPI_Comm comm = MPI_COMM_WORLD) {
  int rank = 0, size = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  std::vector<int> values(memory.bytes() / sizeof(int), rank + 1);
  memory.write(values.data());
  if (reduce(memory, static_cast<int>(values.size()), comm) != MPI_SUCCESS) return false;
  memory.read(values.data());
  return values.front() == size * (size + 1) / 2 && values.back() == values.front();
}

void expect_error(int rc, const char* what) {
  if (!checked(rc != MPI_SUCCESS)) fail("%s succeeded", what);
}
void expect_class(int wanted, int rc, const char* what) {
  int error = MPI_SUCCESS;
  MPI_Error_class(rc, &error);
  if (!checked(error == wanted)) fail("%s ends with class %d, not %d", what, error, wanted);
}
void expect_right(Memory& memory, const char* what) {
  if (!checked(reduces_rightly(memory))) fail("%s: wrong result", what);
}

// Ranks that disagree about the count get an error, and can go on.
void counts() {
  Memory memory(Where::device, 100 * sizeof(int));
  expect_right(memory, "before");
  expect_class(MPI_ERR_TRUNCATE, reduce(memory, g_rank == 1 ? 5 : 4), "an allreduce with different counts");
  expect_right(memory, "after");
}

// What is longer than there is room for on rank 1 is so for all ranks; what is only shorter is another error.
void lengths() {
  Memory memory(Where::device, 1000 * sizeof(int)), other(Where::device, 1000 * sizeof(int));
  const int more = g_rank == 1 ? 5 : 4, less = g_rank == 1 ? 3 : 4;
  void *const from = memory.at(0), *const to = other.at(0);
  const MPI_Comm comm = MPI_COMM_WORLD;
  expect_right(memory, "before");
  expect_class(MPI_ERR_TRUNCATE, MPI_Bcast(from, less, MPI_INT, 0, comm), "a bcast to less");
  expect_class(MPI_ERR_OTHER, MPI_Bcast(from, more, MPI_INT, 0, comm), "a bcast to more");
  expect_class(MPI_ERR_TRUNCATE, MPI_Scatter(from, 4, MPI_INT, to, less, MPI_INT, 0, comm), "a scatter to less");
  expect_class(MPI_ERR_OTHER, MPI_Scatter(from, 4, MPI_INT, to, more, MPI_INT, 0, comm), "a scatter to more");
  expect_class(MPI_ERR_TRUNCATE, MPI_Gather(from, more, MPI_INT, to, 4, MPI_INT, 0, comm), "a gather of more");
  expect_class(MPI_ERR_OTHER, MPI_Gather(from, less, MPI_INT, to, 4, MPI_INT, 0, comm), "a gather of less");
  expect_class(MPI_ERR_TRUNCATE, MPI_Reduce(from, to, more, MPI_INT, MPI_SUM, 0, comm), "a reduce of more");
  expect_class(MPI_ERR_OTHER, MPI_Reduce(from, to, less, MPI_INT, MPI_SUM, 0, comm), "a reduce of less");
  expect_class(MPI_ERR_TRUNCATE, MPI_Allgather(from, less, MPI_INT, to, less, MPI_INT, comm), "an allgather");
  expect_class(MPI_ERR_TRUNCATE, MPI_Alltoall(from, more, MPI_INT, to, more, MPI_INT, comm), "an alltoall");
  expect_class(MPI_ERR_OTHER, MPI_Allreduce(from, to, 4, MPI_INT, g_rank == 1 ? MPI_MAX : MPI_SUM, comm),
               "an allreduce by two operations");
  expect_right(memory, "after");
}

// The same with different roots, and with different counts for the ranks.
void roots() {
  Memory memory(Where::device, 100 * sizeof(int)), other(Where::device, 100 * sizeof(int));
  expect_error(MPI_Bcast(memory.at(0), 5, MPI_INT, g_rank == 1 ? 1 : 0, MPI_COMM_WORLD), "a bcast with two roots");
  expect_right(memory, "after");
  const int sizes[2][3] = {{3, 3, 2}, {2, 3, 3}};  // for 3 ranks
  expect_error(MPI_Reduce_scatter(memory.at(0), other.at(0), sizes[g_rank == 1], MPI_INT, MPI_SUM, MPI_COMM_WORLD),
               "a reduce_scatter with different counts");
  expect_right(memory, "after that");
}

// Calls every collective that moves data so that rank 1 sends `mine` ints to itself where it receives 4, and receives
// from others what they send. Returns the classes of the errors, in one order.
std::vector<int> send_to_self(Form form, int mine, Memory& from, Memory& to) {
  const auto n = static_cast<size_t>(g_size);
  const MPI_Comm comm = MPI_COMM_WORLD;
  const int one = g_rank == 1 ? mine : 4;
  void *const send = from.at(0), *const recv = to.at(0);
  std::vector<int> counts(n, 4), own = counts, places(n), byte_places(n);
  own[1] = g_rank == 1 ? mine : 4;
  for (size_t r = 0; r < n; ++r) places[r] = 9 * static_cast<int>(r);
  for (size_t r = 0; r < n; ++r) byte_places[r] = 36 * static_cast<int>(r);
  const std::vector<MPI_Datatype> types(n, MPI_INT);
  const int *const c = counts.data(), *const o = own.data(), *const p = places.data(), *const b = byte_places.data();
  MPI_Request request = MPI_REQUEST_NULL;
  std::vector<int> codes;
  codes.push_back(GC_CALL_IN_FORM(form, comm, Allgather, allgather, send, one, MPI_INT, recv, 4, MPI_INT));
  codes.push_back(GC_CALL_IN_FORM(form, comm, Allgatherv, allgatherv, send, one, MPI_INT, recv, c, p, MPI_INT));
  codes.push_back(GC_CALL_IN_FORM(form, comm, Alltoall, alltoall, send, one, MPI_INT, recv, 4, MPI_INT));
  codes.push_back(GC_CALL_IN_FORM(form, comm, Alltoallv, alltoallv, send, o, p, MPI_INT, recv, c, p, MPI_INT));
  codes.push_back(
      GC_CALL_IN_FORM(form, comm, Alltoallw, alltoallw, send, o, b, types.data(), recv, c, b, types.data()));
  codes.push_back(GC_CALL_IN_FORM(form, comm, Gather, gather, send, one, MPI_INT, recv, 4, MPI_INT, 1));
  codes.push_back(GC_CALL_IN_FORM(form, comm, Gatherv, gatherv, send, one, MPI_INT, recv, c, p, MPI_INT, 1));
  codes.push_back(GC_CALL_IN_FORM(form, comm, Scatter, scatter, send, one, MPI_INT, recv, 4, MPI_INT, 1));
  codes.push_back(GC_CALL_IN_FORM(form, comm, Scatterv, scatterv, send, o, p, MPI_INT, recv, 4, MPI_INT, 1));
  return codes;
}

// A rank that sends more or less to itself than it receives: all ranks hear of it, at once, and can go on. Open MPI
// finds that by itself in alltoalls, and does not tell the others, unless its parameter mpi_param_check is 0.
void own_lengths() {
  Memory memory(Where::device, 1000 * sizeof(int)), other(Where::device, 1000 * sizeof(int));
  for (const Form form : kForms) {
    for (const int mine : {7, 4, 3}) {
      const int wrong = mine > 4 ? MPI_ERR_TRUNCATE : MPI_ERR_ARG, others = MPI_ERR_OTHER;
      for (const int code : send_to_self(form, mine, memory, other))
        expect_class(mine == 4 ? MPI_SUCCESS : g_rank == 1 ? wrong : others, code, name_of(form));
      expect_right(memory, "after");
    }
  }
}

// Returns how much address space this process has.
rlim_t address_space() {
  size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

// Too many elements with gaps for the list of them that a call through the host needs: its operation is the program's.
void no_list() {
  constexpr int kElements = 1 << 21;
  Memory memory(Where::device, 2 * size_t{kElements});
  MPI_Datatype type;
  MPI_Type_create_resized(MPI_CHAR, 0, 2, &type);
  MPI_Type_commit(&type);
  MPI_Op op;
  MPI_Op_create([](void*, void*, int*, MPI_Datatype*) {}, 1, &op);
  const auto reduce_some = [&](int count) {
    return MPI_Allreduce(MPI_IN_PLACE, memory.at(0), count, type, op, MPI_COMM_WORLD);
  };
  if (!checked(reduce_some(100) == MPI_SUCCESS)) fail("a call with some elements has failed");
  rlimit before;
  getrlimit(RLIMIT_AS, &before);
  const rlimit little = {address_space() + (40 << 20), before.rlim_max};
  setrlimit(RLIMIT_AS, &little);
  expect_class(MPI_ERR_NO_MEM, reduce_some(kElements), "a call with many elements");
  setrlimit(RLIMIT_AS, &before);
  MPI_Barrier(MPI_COMM_WORLD);
  if (!checked(reduce_some(101) == MPI_SUCCESS)) fail("a call with some elements has failed afterwards");
  MPI_Op_free(&op);
  MPI_Type_free(&type);
}

// A rank whose count is more than its allocation holds: all ranks hear of it, at once.
void overlong() {
  Memory memory(Where::device, 100 * sizeof(int)), all(Where::device, 1000 * sizeof(int));
  expect_right(memory, "before");
  expect_error(reduce(memory, g_rank == 1 ? 2000000000 : 100), "an allreduce beyond an allocation");
  expect_right(memory, "after");
}

// The same in memory that was freed.
void freed() {
  Memory memory(Where::device, 100 * sizeof(int)), other(Where::device, 100 * sizeof(int));
  expect_right(memory, "before");
  void* gone = nullptr;
  need(gpucollMalloc(&gone, 100 * sizeof(int)), "gpucollMalloc");
  need(gpucollFree(gone), "gpucollFree");
  const void* const mine = g_rank == 1 ? gone : memory.at(0);
  MPI_Request request = MPI_REQUEST_NULL;
  const int rc =
      g_nonblocking
          ? wait_for(MPI_Iallreduce(mine, other.at(0), 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request), request)
          : MPI_Allreduce(mine, other.at(0), 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  expect_error(rc, "an allreduce of freed memory");
  expect_right(memory, "after");
}

// Passes elements with gaps, in memory that was freed, and beyond the end of an allocation.
void freed_gaps() {
  constexpr int kPairs = 40;
  Memory memory(Where::device, 100 * sizeof(int)), all(Where::device, 1000 * sizeof(int));
  void* gone = nullptr;
  need(gpucollMalloc(&gone, 100 * sizeof(int)), "gpucollMalloc");
  need(gpucollFree(gone), "gpucollFree");
  MPI_Datatype pairs;
  MPI_Type_vector(kPairs, 1, 2, MPI_INT, &pairs);
  MPI_Type_commit(&pairs);
  void* const bad[] = {gone, memory.at(70 * sizeof(int))};
  for (void* at : bad) {
    void* const mine = g_rank == 1 ? at : memory.at(sizeof(int));
    MPI_Request request = MPI_REQUEST_NULL;
    expect_error(g_nonblocking ? wait_for(MPI_Ibcast(mine, 1, pairs, 0, MPI_COMM_WORLD, &request), request)
                               : MPI_Bcast(mine, 1, pairs, 0, MPI_COMM_WORLD),
                 "a bcast with gaps");
    expect_error(
        g_nonblocking
            ? wait_for(MPI_Iallgather(mine, 1, pairs, all.at(0), kPairs, MPI_INT, MPI_COMM_WORLD, &request), request)
            : MPI_Allgather(mine, 1, pairs, all.at(0), kPairs, MPI_INT, MPI_COMM_WORLD),
        "an allgather with gaps");
    expect_right(memory, "after");
  }
  MPI_Type_free(&pairs);
}

// The same among neighbours: each sends to the next rank.
void freed_among_neighbors() {
  const int before = (g_rank + g_size - 1) % g_size, next = (g_rank + 1) % g_size;
  MPI_Comm ring;
  MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &before, MPI_UNWEIGHTED, 1, &next, MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
                                 &ring);
  MPI_Comm_set_errhandler(ring, MPI_ERRORS_RETURN);
  Memory memory(Where::device, 100 * sizeof(int)), other(Where::device, 100 * sizeof(int));
  void* gone = nullptr;
  need(gpucollMalloc(&gone, 100 * sizeof(int)), "gpucollMalloc");
  need(gpucollFree(gone), "gpucollFree");
  for (int i = 0; i < 3; i++) {
    const void* const mine = i == 1 && g_rank == 1 ? gone : memory.at(0);
    std::vector<int> values(100, g_rank);
    memory.write(values.data());
    const int rc = MPI_Neighbor_allgather(mine, 100, MPI_INT, other.at(0), 100, MPI_INT, ring);
    other.read(values.data());
    if (i == 1) expect_error(rc, "a neighbour's freed memory");
    if (i != 1 && !checked(rc == MPI_SUCCESS && values.back() == before)) fail("call %d ends with %d", i, rc);
  }
  MPI_Comm_free(&ring);
}

// Messages from and to memory that was freed, or that ends before they do: they fail where that is, and no others.
void freed_messages() {
  constexpr int kMany = 50000, kFew = 10, kRoom = 100;
  Memory memory(Where::device, kRoom * sizeof(int)), other(Where::device, kRoom * sizeof(int));
  void* gone = nullptr;
  need(gpucollMalloc(&gone, kRoom * sizeof(int)), "gpucollMalloc");
  need(gpucollFree(gone), "gpucollFree");
  MPI_Datatype pairs;
  MPI_Type_vector(kFew, 1, 2, MPI_INT, &pairs);
  MPI_Type_commit(&pairs);
  const int next = (g_rank + 1) % g_size, previous = (g_rank + g_size - 1) % g_size;
  struct Bad {
    const char* name;
    void* at;
    int count;
    MPI_Datatype type;
  };
  const Bad all[] = {{"few freed ints", gone, kFew, MPI_INT},
                     {"freed pairs", gone, 1, pairs},
                     {"ints beyond an allocation", memory.at((kRoom - 5) * sizeof(int)), kFew, MPI_INT},
                     {"pairs beyond an allocation", memory.at(3 * sizeof(int)), kMany / kFew, pairs},
                     {"many ints beyond an allocation", memory.at(sizeof(int)), kMany, MPI_INT}};
  for (const Bad& bad : all) {
    MPI_Request request = MPI_REQUEST_NULL;
    expect_class(MPI_ERR_ARG, MPI_Send(bad.at, bad.count, bad.type, next, 1, MPI_COMM_WORLD), bad.name);
    expect_class(MPI_ERR_ARG,
                 wait_for(MPI_Isend(bad.at, bad.count, bad.type, next, 1, MPI_COMM_WORLD, &request), request),
                 bad.name);
  }
  const Bad small[] = {all[0], all[1], all[2]};
  for (const Bad& bad : small) {
    MPI_Request sent = MPI_REQUEST_NULL, received = MPI_REQUEST_NULL;
    int rc = MPI_Isend(memory.at(0), kFew, MPI_INT, next, 2, MPI_COMM_WORLD, &sent);
    expect_class(MPI_ERR_ARG,
                 wait_for(MPI_Irecv(bad.at, bad.count, bad.type, previous, 2, MPI_COMM_WORLD, &received), received),
                 bad.name);
    wait_for(rc, sent);
  }
  std::vector<int> values(kRoom);
  for (int i = 0; i < kRoom; i++) values[static_cast<size_t>(i)] = 1000 * g_rank + i;
  memory.write(values.data());
  MPI_Sendrecv(memory.at(12), kFew, MPI_INT, next, 3, other.at(4), kFew, MPI_INT, previous, 3, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  other.read(values.data());
  for (int i = 0; i < kFew; i++) {
    const int got = values[static_cast<size_t>(i + 1)], right = 1000 * previous + i + 3;
    if (!checked(got == right)) fail("int %d of a message after these is %d, not %d", i, got, right);
  }
  MPI_Type_free(&pairs);
}

// A message that is longer than its receiver has room for, in the first call. Where its ranks are members of a team,
// the others do not wait for their leader.
void long_message() {
  Memory memory(Where::device, 100 * sizeof(int)), other(Where::device, 100 * sizeof(int));
  std::vector<int> counts(static_cast<size_t>(g_size), 2), places(static_cast<size_t>(g_size));
  for (size_t i = 0; i < places.size(); ++i) places[i] = 4 * static_cast<int>(i);
  auto sends = counts;
  if (g_rank == 0) sends[2] = 3;
  MPI_Request request = MPI_REQUEST_NULL;
  const int rc = g_nonblocking
                     ? wait_for(MPI_Ialltoallv(memory.at(0), sends.data(), places.data(), MPI_INT, other.at(0),
                                               counts.data(), places.data(), MPI_INT, MPI_COMM_WORLD, &request),
                                request)
                     : MPI_Alltoallv(memory.at(0), sends.data(), places.data(), MPI_INT, other.at(0), counts.data(),
                                     places.data(), MPI_INT, MPI_COMM_WORLD);
  int error = MPI_SUCCESS;
  MPI_Error_class(rc, &error);
  // Who does not see this message may be done before, but for those of a team.
  const int otherwise = std::getenv("GPUCOLL_EMU_EXCLUSIVE") ? MPI_ERR_OTHER : MPI_SUCCESS;
  if (!checked(error == MPI_ERR_TRUNCATE || (g_rank != 2 && error == otherwise)))
    fail("an alltoallv with different counts ends with class %d", error);
}

// A buffer that a program has forgotten, beside device memory.
void null_buffer() {
  Memory memory(Where::device, 100 * sizeof(int));
  auto refused = [](int rc, const char* what) {
    int error = MPI_SUCCESS;
    MPI_Error_class(rc, &error);
    if (!checked(error == MPI_ERR_BUFFER)) fail("%s with NULL ends with class %d", what, error);
  };
  MPI_Request request = MPI_REQUEST_NULL;
  refused(MPI_Allreduce(memory.at(0), nullptr, 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD), "an allreduce");
  refused(MPI_Allgather(nullptr, 4, MPI_INT, memory.at(0), 4, MPI_INT, MPI_COMM_WORLD), "an allgather");
  refused(MPI_Iallreduce(memory.at(0), nullptr, 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request), "a nonblocking one");
  refused(GC_INIT(Allreduce)(memory.at(0), nullptr, 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &request),
          "a persistent one");
  expect_right(memory, "after");
}

// The same on rank 1 only: it has an error of its own, the others hear of it at once, and all can go on. More such
// calls than there are lines on the board, some before the others come.
void null_buffer_of_one() {
  constexpr int kTimes = 40;
  Memory memory(Where::device, 100 * sizeof(int)), all(Where::device, 1000 * sizeof(int));
  void* const mine = g_rank == 1 ? nullptr : all.at(0);
  const auto refused = [](int rc, const char* what) {
    int error = MPI_SUCCESS;
    MPI_Error_class(rc, &error);
    if (!checked(error == (g_rank == 1 ? MPI_ERR_BUFFER : MPI_ERR_OTHER))) fail("%s ends with class %d", what, error);
  };
  const auto sum = [&](void* result, MPI_Request* request) {
    return MPI_Iallreduce(memory.at(0), result, 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD, request);
  };
  for (const bool late : {false, true}) {
    expect_right(memory, "before");
    if (late && g_rank == 2) std::this_thread::sleep_for(std::chrono::milliseconds(500));
    for (int i = 0; i < kTimes; i++) {
      refused(MPI_Allreduce(memory.at(0), mine, 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD), "an allreduce");
      refused(MPI_Reduce(memory.at(0), mine, 4, MPI_INT, MPI_SUM, 1, MPI_COMM_WORLD), "a reduce");
    }
    expect_right(memory, "between");
    if (late && g_rank == 2) std::this_thread::sleep_for(std::chrono::milliseconds(500));
    MPI_Request requests[kTimes];
    int started[kTimes];
    for (int i = 0; i < kTimes; i++) started[i] = sum(i % 3 ? mine : all.at(0), &requests[i]);
    for (int i = 0; i < kTimes; i++) {
      const int rc = wait_for(started[i], requests[i]);
      if (i % 3) refused(rc, "a nonblocking one");
      if (i % 3 == 0 && !checked(rc == MPI_SUCCESS)) fail("a nonblocking one between ends with %d", rc);
    }
    expect_right(memory, "after");
  }
  MPI_Request request = MPI_REQUEST_NULL;
  int rc = GC_INIT(Allreduce)(memory.at(0), mine, 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
  if (rc == MPI_SUCCESS) rc = MPI_Start(&request);
  refused(wait_for(rc, request), "a persistent one");
  if (request != MPI_REQUEST_NULL) MPI_Request_free(&request);
  expect_right(memory, "after a persistent one");
  // Nothing that rank 1 waits for keeps its communicators: the others must hear of what they refuse all the same.
  for (int round = 0; round < 5; round++) {
    MPI_Comm dup;
    MPI_Comm_dup(MPI_COMM_WORLD, &dup);
    MPI_Comm_set_errhandler(dup, MPI_ERRORS_RETURN);
    if (g_rank != 1) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    MPI_Request requests[kTimes];
    int started[kTimes];
    for (int i = 0; i < kTimes; i++)
      started[i] = MPI_Iallreduce(memory.at(0), mine, 4, MPI_INT, MPI_SUM, dup, &requests[i]);
    MPI_Comm_free(&dup);
    for (int i = 0; i < kTimes; i++) refused(wait_for(started[i], requests[i]), "one of a communicator that is freed");
  }
}

// The same where it is the only buffer that the call needs of rank 1, and looks like host memory. Nothing is under way.
void null_for_all_of_one() {
  Memory memory(Where::device, 100 * sizeof(int)), all(Where::device, 1000 * sizeof(int));
  void* const mine = g_rank == 1 ? nullptr : memory.at(0);
  const MPI_Comm comm = MPI_COMM_WORLD;
  const int error = g_rank == 1 ? MPI_ERR_BUFFER : MPI_ERR_OTHER;
  for (const int root : {0, 1}) {
    MPI_Request request = MPI_REQUEST_NULL;
    expect_right(memory, "before");
    expect_class(error, MPI_Bcast(mine, 4, MPI_INT, root, comm), "a bcast");
    expect_right(memory, "between");
    expect_class(error, wait_for(MPI_Ibcast(mine, 4, MPI_INT, root, comm, &request), request), "a nonblocking bcast");
    expect_right(memory, "after a nonblocking one");
    int rc = GC_INIT(Bcast)(mine, 4, MPI_INT, root, comm, MPI_INFO_NULL, &request);
    if (rc == MPI_SUCCESS) rc = MPI_Start(&request);
    expect_class(error, wait_for(rc, request), "a persistent bcast");
    if (request != MPI_REQUEST_NULL) MPI_Request_free(&request);
  }
  expect_right(memory, "after a persistent one");
  expect_class(error, MPI_Gather(mine, 4, MPI_INT, all.at(0), 4, MPI_INT, 0, comm), "a gather");
  expect_class(error, MPI_Scatter(all.at(0), 4, MPI_INT, mine, 4, MPI_INT, 0, comm), "a scatter");
  expect_class(error, MPI_Reduce(mine, all.at(0), 4, MPI_INT, MPI_SUM, 0, comm), "a reduce");
  expect_class(error, MPI_Allreduce(MPI_IN_PLACE, mine, 4, MPI_INT, MPI_SUM, comm), "an allreduce in place");
  expect_right(memory, "at the end");
  // Nobody minds what moves nowhere.
  expect_class(MPI_SUCCESS, MPI_Bcast(nullptr, 4, MPI_INT, 0, MPI_COMM_SELF), "a bcast of one rank");
}

// Ranks that call different collectives cannot go on.
void functions() {
  Memory memory(Where::device, 100 * sizeof(int)), all(Where::device, 1000 * sizeof(int));
  expect_right(memory, "before");
  expect_error(g_rank == 1 ? gather(memory, all, 4) : reduce(memory, 4), "an allreduce while rank 1 gathers");
  expect_error(reduce(memory, 4), "the allreduce after that");
}

// A rank that makes a call in another form than the others.
void forms() {
  Memory memory(Where::device, 100 * sizeof(int));
  expect_right(memory, "before");
  for (const bool nonblocking : {true, false}) {
    g_nonblocking = nonblocking;
    expect_right(memory, "all in one form");
  }
  g_nonblocking = g_rank == 1;
  expect_error(reduce(memory, 4), "an allreduce in two forms");
  expect_error(reduce(memory, 4), "the allreduce after that");
}

// Lets rank 1 wait until all others have come here.
void meet_rank_1(int tag) {
  if (g_rank != 1) MPI_Send(nullptr, 0, MPI_BYTE, 1, tag, MPI_COMM_WORLD);
  for (int r = 0; g_rank == 1 && r < g_size; r++)
    if (r != 1) MPI_Recv(nullptr, 0, MPI_BYTE, r, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

// Calls `give_up`: rank 1 only when the others have returned from it, however long that takes on a busy machine.
void come_too_late(const std::function<int()>& give_up, const char* what) {
  if (g_rank == 1) meet_rank_1(0);
  expect_error(give_up(), what);
  if (g_rank != 1) meet_rank_1(0);
}

// A rank that comes after the others have given up is not left waiting for them.
void late() {
  Memory memory(Where::device, 100 * sizeof(int));
  come_too_late([&] { return reduce(memory, 4); }, "an allreduce that a rank came too late to");
  expect_error(reduce(memory, 4), "the next allreduce");
}

void let_rank_1_die() {
  if (g_rank != 1) return;
  std::thread([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    raise(SIGKILL);
  }).detach();
}

// Rank 1 dies while the others reduce, broadcast, gather and exchange. Only with mpirun --enable-recovery do they live
// to tell.
void killed() {
  Memory memory(Where::device, 100000 * sizeof(int));
  expect_right(memory, "before");
  let_rank_1_die();
  Memory all(Where::device, memory.bytes() * static_cast<size_t>(g_size));
  auto call = [&](int i) {
    switch (i % 4) {
      case 0: return reduce(memory, 100000);
      case 1: return MPI_Bcast(memory.at(0), 100000, MPI_INT, 0, MPI_COMM_WORLD);
      case 2: return MPI_Gather(memory.at(0), 100000, MPI_INT, all.at(0), 100000, MPI_INT, 2, MPI_COMM_WORLD);
      default: return MPI_Alltoall(all.at(0), 1000, MPI_INT, memory.at(0), 1000, MPI_INT, MPI_COMM_WORLD);
    }
  };
  int rc = MPI_SUCCESS;
  for (int i = 0; rc == MPI_SUCCESS; i++) rc = call(i);
  expect_error(reduce(memory, 4), "the allreduce after the fault");
}

// The same with several under way: what has been started when rank 1 dies ends with an error, or rightly.
void killed_under_way() {
  constexpr int kUnderWay = 8, kCount = 50000;
  Memory memory(Where::device, kUnderWay * kCount * sizeof(int));
  expect_right(memory, "before");
  let_rank_1_die();
  int rc = MPI_SUCCESS;
  while (rc == MPI_SUCCESS) {
    MPI_Request requests[kUnderWay];
    for (int i = 0; i < kUnderWay; i++) {
      int* data = memory.as<int>() + i * kCount;
      requests[i] = MPI_REQUEST_NULL;
      const int started =
          i % 2 ? MPI_Ibcast(data, kCount, MPI_INT, i % g_size, MPI_COMM_WORLD, &requests[i])
                : MPI_Iallreduce(MPI_IN_PLACE, data, kCount, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[i]);
      if (started != MPI_SUCCESS) rc = started;
    }
    for (MPI_Request& request : requests)
      if (const int ended = MPI_Wait(&request, MPI_STATUS_IGNORE); ended != MPI_SUCCESS) rc = ended;
  }
  expect_error(reduce(memory, 4), "the allreduce after the fault");
}

// The last rank dies between two calls. Rank 1, which leads it where two devices are shared, gives up and ends before
// the others look. REQUIRES: no progress thread, which looks for them.
void killed_in_turn() {
  Memory memory(Where::device, 100 * sizeof(int));
  expect_right(memory, "before");
  const int pid = getpid();
  std::vector<int> pids(static_cast<size_t>(g_size));
  MPI_Allgather(&pid, 1, MPI_INT, pids.data(), 1, MPI_INT, MPI_COMM_WORLD);
  if (g_rank == g_size - 1) raise(SIGKILL);
  MPI_Request request = MPI_REQUEST_NULL;
  const int rc = MPI_Iallreduce(MPI_IN_PLACE, memory.at(0), 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
  if (g_rank != 1) {
    while (kill(pids[1], 0) == 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    std::this_thread::sleep_for(std::chrono::milliseconds(500));  // their watchdogs do look
  }
  expect_error(wait_for(rc, request), "the allreduce after the fault");
}

// Rank 1 dies in the middle of a message of device memory. The two have called no collective: nothing but messages
// joins them.
void killed_in_pieces() {
  constexpr int kBytes = 64 << 20;
  if (g_rank > 1) return;
  Memory memory(Where::device, kBytes);
  if (g_rank == 0)
    return expect_error(MPI_Recv(memory.at(0), kBytes, MPI_BYTE, 1, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
                        "the receive");
  MPI_Request request;
  MPI_Isend(memory.at(0), kBytes, MPI_BYTE, 0, 5, MPI_COMM_WORLD, &request);
  std::this_thread::sleep_for(std::chrono::seconds(6));  // it sends nothing meanwhile
  raise(SIGKILL);
}

constexpr MPI_Aint kWindow = 1 << 16;

// Makes a window of kWindow bytes, whose errors return.
MPI_Win window_of(const Memory& memory) {
  MPI_Win win;
  MPI_Win_create(memory.at(0), kWindow, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
  MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
  return win;
}

// Rank 1 dies while the others access its memory. MPI_Win_free does not wait for it, either.
void killed_in_window() {
  Memory memory(Where::device, kWindow);
  MPI_Win win = window_of(memory);
  MPI_Win_lock_all(0, win);
  let_rank_1_die();
  int rc = MPI_SUCCESS, value = g_rank;
  while (rc == MPI_SUCCESS) {
    MPI_Accumulate(&value, 1, MPI_INT, 1, 0, 1, MPI_INT, MPI_SUM, win);
    rc = MPI_Win_flush(1, win);
  }
  expect_error(rc, "the flush");
  expect_error(MPI_Win_unlock_all(win), "the end of the epoch");
  MPI_Win_free(&win);
}

// Rank 1 dies, and the others go on when it is gone.
void lose_rank_1() {
  const int pid = getpid();
  std::vector<int> pids(static_cast<size_t>(g_size));
  MPI_Allgather(&pid, 1, MPI_INT, pids.data(), 1, MPI_INT, MPI_COMM_WORLD);
  if (g_rank == 1) {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));  // the others have all of its messages
    raise(SIGKILL);
  }
  while (kill(pids[1], 0) == 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

// Rank 1 has answered once, and dies before it answers what the others have a request for.
void killed_before_answer() {
  Memory memory(Where::device, kWindow);
  MPI_Win win = window_of(memory);
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Win_lock(MPI_LOCK_SHARED, 1, MPI_MODE_NOCHECK, win);
  MPI_Get(memory.at(0), 100, MPI_BYTE, 1, 0, 100, MPI_BYTE, win);
  MPI_Win_flush(1, win);
  lose_rank_1();
  MPI_Rget(memory.at(0), 100, MPI_BYTE, 1, 0, 100, MPI_BYTE, win, &request);
  expect_error(MPI_Wait(&request, MPI_STATUS_IGNORE), "the wait");
  MPI_Win_unlock(1, win);
  MPI_Win_free(&win);
}

// Rank 1 dies before anybody has accessed its memory.
void killed_before_access() {
  Memory memory(Where::device, kWindow);
  MPI_Win win = window_of(memory);
  lose_rank_1();
  expect_error(MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, win), "the lock");
  MPI_Win_free(&win);
}

// Rank 1 dies before the others lock the memory of all. They give back the lock of rank 0, which they had got.
void killed_before_locks() {
  Memory memory(Where::device, kWindow);
  MPI_Win win = window_of(memory);
  lose_rank_1();
  expect_error(MPI_Win_lock_all(0, win), "the lock of all");
  expect_class(MPI_ERR_RMA_SYNC, MPI_Win_unlock_all(win), "the end of an epoch that has not begun");
  expect_class(MPI_SUCCESS, MPI_Win_lock(MPI_LOCK_SHARED, 0, MPI_MODE_NOCHECK, win), "a lock of rank 0");
  MPI_Win_unlock(0, win);
  MPI_Win_free(&win);
}

// A persistent sum of `count` elements.
class Sum {
 public:
  Sum(Memory& memory, int count) {
    made_ = GC_INIT(Allreduce)(MPI_IN_PLACE, memory.at(0), count, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL,
                               &request_);
  }
  ~Sum() {
    if (request_ != MPI_REQUEST_NULL) MPI_Request_free(&request_);  // Open MPI 4.1 frees those that fail
  }
  Sum(const Sum&) = delete;
  Sum& operator=(const Sum&) = delete;
  int start() { return made_ == MPI_SUCCESS ? MPI_Start(&request_) : made_; }
  int wait() { return MPI_Wait(&request_, MPI_STATUS_IGNORE); }
  int run() { return wait_for(start(), request_); }

 private:
  int made_ = MPI_SUCCESS;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

// Starts a persistent allgather of elements with gaps from memory that rank 1 frees: where it has others at the same
// address the result is right, and where it has none the start fails on all ranks.
void freed_started() {
  constexpr int kCount = 15, kStep = 2, kFirst = 3;
  Memory all(Where::device, 1000 * sizeof(int));
  auto mine = std::make_unique<Memory>(Where::device, 100 * sizeof(int));
  const void* const address = mine->at(0);
  MPI_Datatype type;
  MPI_Type_create_resized(MPI_INT, 0, kStep * sizeof(int), &type);
  MPI_Type_commit(&type);
  MPI_Request request = MPI_REQUEST_NULL;
  GC_INIT(Allgather)
  (mine->as<int>() + kFirst, kCount, type, all.at(4), kCount, MPI_INT, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
  std::vector<int> values(1000);
  for (int round = 0; round < 4; round++) {
    if (g_rank == 1 && round == 2) {
      mine.reset();
      mine = std::make_unique<Memory>(Where::device, 100 * sizeof(int));
    }
    int same = mine->at(0) == address;
    MPI_Allreduce(MPI_IN_PLACE, &same, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (!same) break;
    for (int i = 0; i < 100; i++) values[static_cast<size_t>(i)] = 10000 * round + 100 * g_rank + i;
    mine->write(values.data());
    if (!checked(wait_for(MPI_Start(&request), request) == MPI_SUCCESS)) fail("start %d has failed", round);
    all.read(values.data());
    for (int i = 0; i < g_size * kCount; i++) {
      const int right = 10000 * round + 100 * (i / kCount) + i % kCount * kStep + kFirst;
      const int got = values[static_cast<size_t>(i + 1)];
      if (!checked(got == right)) fail("start %d: element %d is %d, not %d", round, i, got, right);
    }
  }
  if (g_rank == 1) mine.reset();
  const int rc = wait_for(MPI_Start(&request), request);
  expect_class(g_rank == 1 ? MPI_ERR_ARG : MPI_ERR_OTHER, rc, "a start of freed memory");
  MPI_Type_free(&type);
}

// Frees memory of a started call that goes through the host, as the program has made its operation.
void freed_started_staged() {
  MPI_Op op;
  MPI_Op_create([](void*, void*, int*, MPI_Datatype*) {}, 1, &op);
  Memory sums(Where::device, 100 * sizeof(int));
  auto mine = std::make_unique<Memory>(Where::device, 100 * sizeof(int));
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  GC_INIT(Allreduce)(mine->at(4), sums.at(0), 10, MPI_INT, op, MPI_COMM_SELF, MPI_INFO_NULL, &request);
  for (int round = 0; round < 2; round++)
    if (!checked(wait_for(MPI_Start(&request), request) == MPI_SUCCESS)) fail("start %d has failed", round);
  mine.reset();
  expect_class(MPI_ERR_ARG, wait_for(MPI_Start(&request), request), "a start of freed memory");
  MPI_Op_free(&op);
}

// Frees memory of a persistent message: its start fails, and no other message does.
void freed_messages_started() {
  constexpr int kFew = 10, kBytes = 100 * sizeof(int);
  const int next = (g_rank + 1) % g_size, previous = (g_rank + g_size - 1) % g_size;
  for (const bool sends : {true, false}) {
    auto from = std::make_unique<Memory>(Where::device, kBytes), to = std::make_unique<Memory>(Where::device, kBytes);
    MPI_Request pair[2];
    MPI_Send_init(from->at(4), kFew, MPI_INT, next, 1, MPI_COMM_WORLD, &pair[0]);
    MPI_Recv_init(to->at(8), kFew, MPI_INT, previous, 1, MPI_COMM_WORLD, &pair[1]);
    std::vector<int> values(100);
    for (int round = 0; round < 3; round++) {
      for (int i = 0; i < 100; i++) values[static_cast<size_t>(i)] = 1000 * round + 100 * g_rank + i;
      from->write(values.data());
      if (!checked(MPI_Startall(2, pair) == MPI_SUCCESS && MPI_Waitall(2, pair, MPI_STATUSES_IGNORE) == MPI_SUCCESS))
        fail("round %d has failed", round);
      to->read(values.data());
      for (int i = 0; i < kFew; i++) {
        const int got = values[static_cast<size_t>(i + 2)], right = 1000 * round + 100 * previous + i + 1;
        if (!checked(got == right)) fail("round %d: int %d is %d, not %d", round, i, got, right);
      }
    }
    (sends ? from : to).reset();
    MPI_Request other = MPI_REQUEST_NULL;
    if (!sends) MPI_Isend(from->at(0), kFew, MPI_INT, next, 1, MPI_COMM_WORLD, &other);
    expect_class(MPI_ERR_ARG, wait_for(MPI_Start(&pair[!sends]), pair[!sends]), sends ? "a send" : "a receive");
    if (!sends) MPI_Wait(&other, MPI_STATUS_IGNORE);
    for (MPI_Request& each : pair)
      if (each != MPI_REQUEST_NULL) MPI_Request_free(&each);
  }
}

// A rank that starts after the others have given up.
void late_start() {
  Memory memory(Where::device, 100 * sizeof(int));
  Sum first(memory, 4), second(memory, 5);
  if (!checked(first.run() == MPI_SUCCESS)) fail("the first start has failed");
  come_too_late([&] { return first.run(); }, "a start that a rank came too late to");
  expect_error(second.run(), "the next start");
  expect_error(reduce(memory, 4), "the allreduce after that");
}

// Waits until the file GC_LOG has so many reports of waits; 40 s at most.
void await_reports(int wanted) {
  const char* const log = std::getenv("GC_LOG");
  for (int look = 0; log && look < 800; look++) {
    std::ifstream file(log);
    int found = 0;
    for (std::string line; std::getline(file, line);) found += line.find("parameter report_after") != line.npos;
    if (found >= wanted) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

// A rank that is long in coming, but comes: a blocking call, a nonblocking one, and a start. Where it is to be told
// that the others wait, rank 1 comes a second after that was told, however busy the machine is.
void long_in_coming() {
  Memory memory(Where::device, 100 * sizeof(int));
  MPI_Bcast(memory.at(0), 100, MPI_INT, 0, MPI_COMM_WORLD);
  Sum sum(memory, 4);
  if (!checked(sum.run() == MPI_SUCCESS)) fail("the first start has failed");
  for (int form = 0; form < 3; form++) {
    meet_rank_1(form);
    if (g_rank == 1) await_reports(form + 1);
    if (g_rank == 1) std::this_thread::sleep_for(std::chrono::seconds(1));
    MPI_Request request = MPI_REQUEST_NULL;
    const int rc = form == 0   ? reduce(memory, 4)
                   : form == 1 ? wait_for(MPI_Ibcast(memory.at(0), 100, MPI_INT, 0, MPI_COMM_WORLD, &request), request)
                               : sum.run();
    if (!checked(rc == MPI_SUCCESS)) fail("an error while a rank is long in coming");
  }
}

// What is started when rank 1 dies ends with an error, or rightly.
void killed_started() {
  constexpr int kCount = 50000;
  Memory memory(Where::device, 2 * kCount * sizeof(int)), other(Where::device, 2 * kCount * sizeof(int));
  Sum a(memory, kCount), b(other, kCount);
  if (!checked(a.run() == MPI_SUCCESS)) fail("the first start has failed");
  let_rank_1_die();
  int rc = MPI_SUCCESS;
  while (rc == MPI_SUCCESS) {
    const int started = g_rank == 0 ? a.start() : MPI_SUCCESS;
    rc = b.run();
    if (rc == MPI_SUCCESS) rc = g_rank == 0 ? started : MPI_SUCCESS;
    if (rc == MPI_SUCCESS) rc = g_rank == 0 ? a.wait() : a.run();
  }
  expect_error(reduce(memory, 4), "the allreduce after the fault");
}

// Rank 0 alone, and the others.
MPI_Comm bridge() {
  MPI_Comm half, made;
  MPI_Comm_split(MPI_COMM_WORLD, g_rank > 0, g_rank, &half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, g_rank > 0 ? 0 : 1, 5, &made);
  MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN);
  MPI_Comm_free(&half);
  return made;
}

int reduce_across(Memory& memory, Memory& other, int count, MPI_Comm comm) {
  return MPI_Allreduce(memory.at(0), other.at(0), count, MPI_INT, MPI_SUM, comm);
}

// Groups that disagree about the count, or about what they call.
void across() {
  Memory memory(Where::device, 100 * sizeof(int)), other(Where::device, 100 * sizeof(int));
  MPI_Comm comm = bridge();
  const auto expect_right_across = [&](const char* what) {
    if (!checked(reduce_across(memory, other, 100, comm) == MPI_SUCCESS)) fail("%s: an error", what);
  };
  expect_right_across("before");
  expect_error(reduce_across(memory, other, g_rank ? 5 : 4, comm), "an allreduce with different counts");
  expect_right_across("after");
  const int rc = g_rank == 1 ? MPI_Allgather(memory.at(0), 1, MPI_INT, other.at(0), 1, MPI_INT, comm)
                             : reduce_across(memory, other, 4, comm);
  expect_error(rc, "an allreduce while rank 1 gathers");
}

// Rank 1 dies while the groups exchange and reduce.
void killed_across() {
  Memory memory(Where::device, 100000 * sizeof(int)), other(Where::device, 100000 * sizeof(int));
  MPI_Comm comm = bridge();
  if (!checked(reduce_across(memory, other, 100000, comm) == MPI_SUCCESS)) fail("an allreduce between groups");
  let_rank_1_die();
  int rc = MPI_SUCCESS;
  for (int i = 0; rc == MPI_SUCCESS; i++)
    rc = i % 2 ? reduce_across(memory, other, 100000, comm)
               : MPI_Allgather(memory.at(0), 10000, MPI_INT, other.at(0), 10000, MPI_INT, comm);
  expect_error(reduce_across(memory, other, 4, comm), "the allreduce after the fault");
}

// Rank 1 ends MPI while the others go on.
void early() {
  Memory memory(Where::device, 100 * sizeof(int));
  expect_right(memory, "before");
  if (g_rank == 1) return;
  expect_error(reduce(memory, 4), "an allreduce without rank 1");
}
void early_start() {
  Memory memory(Where::device, 100 * sizeof(int));
  Sum sum(memory, 4);
  if (!checked(sum.run() == MPI_SUCCESS)) fail("the first start has failed");
  if (g_rank != 1) expect_error(sum.run(), "a start without rank 1");
}
// With something under way: on some ranks, on all.
void early_with_some() {
  static Memory memory(Where::device, 100 * sizeof(int));
  MPI_Request request;
  if (g_rank == 1) return;
  MPI_Iallreduce(MPI_IN_PLACE, memory.at(0), 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
  checked(true);
}
void early_with_all() {
  static Memory memory(Where::device, 1000000 * sizeof(int));  // in use until MPI ends
  MPI_Request requests[3];
  for (MPI_Request& request : requests)
    MPI_Iallreduce(MPI_IN_PLACE, memory.at(0), 1000000, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
  checked(true);
}

int entries(const char* directory) {
  int count = 0;
  DIR* dir = opendir(directory);
  while (dir && readdir(dir)) ++count;
  if (dir) closedir(dir);
  return count;
}

// Communicators made, used and freed leave no descriptor and no thread behind.
void many() {
  Memory memory(Where::device, 100 * sizeof(int));
  int descriptors = 0, threads = 0;
  for (int round = 0; round < 300; ++round) {
    MPI_Comm dup, half;
    MPI_Comm_dup(MPI_COMM_WORLD, &dup);
    MPI_Comm_split(dup, g_rank % 2, g_rank, &half);
    bool right = reduces_rightly(memory, dup) && reduces_rightly(memory, half) && reduces_rightly(memory);
    if (!checked(right)) fail("round %d: wrong result", round);
    MPI_Comm_free(&dup);
    MPI_Comm_free(&half);
    if (round == 50) {
      descriptors = entries("/proc/self/fd");
      threads = entries("/proc/self/task");
    }
  }
  // A communicator lives on until its peers have freed it too: some rounds may overlap.
  if (!checked(entries("/proc/self/fd") < descriptors + 60)) fail("%d descriptors are left", entries("/proc/self/fd"));
  if (!checked(entries("/proc/self/task") < threads + 10)) fail("%d threads are left", entries("/proc/self/task"));
}

// More communicators in use at once than there are descriptors for: the last ones are slow, all are right.
void at_once() {
  Memory memory(Where::device, 100 * sizeof(int));
  std::vector<MPI_Comm> comms(80);
  for (MPI_Comm& comm : comms) {
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    if (!checked(reduces_rightly(memory, comm))) fail("wrong result");
  }
  for (MPI_Comm& comm : comms)
    if (!checked(reduces_rightly(memory, comm))) fail("wrong result the second time");
  for (MPI_Comm& comm : comms) MPI_Comm_free(&comm);
}

void same() {
  Memory memory(Where::device, 100 * sizeof(int));
  for (int i = 0; i < 3; ++i) expect_right(memory, "whatever the parameters");
}

void add(void* from, void* to, int* count, MPI_Datatype*) {
  for (int i = 0; i < *count; ++i) static_cast<int*>(to)[i] += static_cast<int*>(from)[i];
}

// What goes through the host for some reason, again and again: that is told once for each reason.
void through_host() {
  Memory memory(Where::device, 100 * sizeof(int));
  MPI_Op op;
  MPI_Op_create(add, 1, &op);
  std::vector<std::unique_ptr<Sum>> sums;
  for (int i = 0; i < 256 + 3; ++i) sums.push_back(std::make_unique<Sum>(memory, 4));
  for (int i = 0; i < 3; ++i) {
    const int rc = MPI_Allreduce(MPI_IN_PLACE, memory.at(0), 4 + i, MPI_INT, op, MPI_COMM_WORLD);
    if (!checked(rc == MPI_SUCCESS)) fail("a user's operation has failed");
    const int misaligned = MPI_Allreduce(MPI_IN_PLACE, memory.at(2 * i + 1), 4 + i, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (!checked(misaligned == MPI_SUCCESS)) fail("misaligned memory has failed");
  }
  MPI_Op_free(&op);
}

// Rank 0 frees a communicator when its part of a broadcast has run. It waits for the others there: they look at its
// line later than that. Of a smaller broadcast the root would wait for them before it ends.
void freed_early() {
  constexpr int kMany = 20000;
  Memory memory(Where::device, kMany * sizeof(int));
  std::vector<int> values(kMany, g_rank == 0 ? 7 : 0);
  memory.write(values.data());
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Request request = MPI_REQUEST_NULL;
  wait_for(MPI_Ibcast(memory.at(0), kMany, MPI_INT, 0, comm, &request), request);
  if (g_rank == 0) values.assign(kMany, 8);
  memory.write(values.data());
  for (int r = 1; r < g_size && g_rank == 0; ++r)
    MPI_Recv(nullptr, 0, MPI_INT, r, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  int rc = MPI_Ibcast(memory.at(0), kMany, MPI_INT, 0, comm, &request);
  if (g_rank != 0) MPI_Send(nullptr, 0, MPI_INT, 0, 0, MPI_COMM_WORLD);
  // Long enough for a rank 0 that is wrong, and may be slow.
  if (g_rank != 0) std::this_thread::sleep_for(std::chrono::milliseconds(std::getenv("GC_MUTANT") ? 3000 : 200));
  long long at = Clock::now().time_since_epoch().count(), last = 0;
  rc = wait_for(rc, request);
  memory.read(values.data());
  if (!checked(rc == MPI_SUCCESS && values.back() == 8)) fail("a broadcast brought %d", values.back());
  MPI_Comm_free(&comm);
  const long long freed = Clock::now().time_since_epoch().count();
  MPI_Reduce(&at, &last, 1, MPI_LONG_LONG, MPI_MAX, 0, MPI_COMM_WORLD);
  if (g_rank == 0 && !checked(freed > last)) fail("a communicator is freed while others read");
}

struct Fault {
  const char* name;
  void (*run)();
};
constexpr Fault kFaults[] = {{"counts", counts},
                             {"lengths", lengths},
                             {"roots", roots},
                             {"overlong", overlong},
                             {"freed", freed},
                             {"freed_gaps", freed_gaps},
                             {"freed_messages", freed_messages},
                             {"freed_early", freed_early},
                             {"freed_among_neighbors", freed_among_neighbors},
                             {"long_message", long_message},
                             {"null_buffer", null_buffer},
                             {"null_buffer_of_one", null_buffer_of_one},
                             {"null_for_all_of_one", null_for_all_of_one},
                             {"functions", functions},
                             {"late", late},
                             {"long_in_coming", long_in_coming},
                             {"killed", killed},
                             {"killed_under_way", killed_under_way},
                             {"killed_in_window", killed_in_window},
                             {"killed_before_answer", killed_before_answer},
                             {"killed_before_access", killed_before_access},
                             {"killed_before_locks", killed_before_locks},
                             {"killed_in_turn", killed_in_turn},
                             {"killed_in_pieces", killed_in_pieces},
                             {"late_start", late_start},
                             {"own_lengths", own_lengths},
                             {"forms", forms},
                             {"no_list", no_list},
                             {"freed_started", freed_started},
                             {"freed_started_staged", freed_started_staged},
                             {"freed_messages_started", freed_messages_started},
                             {"killed_started", killed_started},
                             {"across", across},
                             {"killed_across", killed_across},
                             {"early", early},
                             {"early_start", early_start},
                             {"early_with_some", early_with_some},
                             {"early_with_all", early_with_all},
                             {"many", many},
                             {"at_once", at_once},
                             {"same", same},
                             {"through_host", through_host}};

}  // namespace

int main(int argc, char** argv) {
  Mpi mpi(argc, argv, MPI_THREAD_MULTIPLE);
  use_own_device();
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  const std::string wanted = argc > 1 ? argv[1] : "";
  g_nonblocking = argc > 2;
  auto start = Clock::now();
  for (const Fault& fault : kFaults)
    if (wanted == fault.name) fault.run();
  if (!checked(wanted == "many" || Clock::now() - start < std::chrono::seconds(kMostSeconds))) fail("it took too long");
  const bool early = wanted.rfind("early", 0) == 0;
  if (early) MPI_Finalize();
  if (!early && wanted.rfind("killed", 0) != 0) return mpi.finish("faults");
  // MPI itself cannot be finished with a rank missing.
  std::printf("rank %d survived, %ld failures\n", g_rank, g_failures.load());
  std::fflush(stdout);
  _exit(g_failures != 0);
}
