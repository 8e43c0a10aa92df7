// Calls to be counted under callgrind (instructions.py): rank 0 of two runs under it, with collecting on only inside
// gc_bench_call and gc_bench_message, and a dump before each gc_bench_end. What has been collected before
// gc_bench_begin, where calls to warm up wait, is thrown away. Prints "CASE N" for each dump, in their order.
//
// Buffers have 8 bytes a block, where a call's own instructions weigh most. Those in host memory come first: until
// there is a device in the process, looking at a pointer costs next to nothing.
#include <gpucoll/gpucoll.h>
#include <mpi.h>

#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "perf/agree.h"
#include "perf/runner.h"

using namespace gpucoll;
using namespace gpucoll::perf;

// Known to callgrind by these names.
extern "C" {
__attribute__((noinline)) bool gc_bench_call(Runner* runner, const Call* call, bool whole) {
  return runner->start(*call) && (!whole || runner->finish());
}
__attribute__((noinline)) void gc_bench_message(const std::function<void()>* part) { (*part)(); }
__attribute__((noinline)) void gc_bench_begin() { asm volatile(""); }
__attribute__((noinline)) void gc_bench_end() { asm volatile(""); }
}

namespace {

constexpr int kWarmup = 10, kCalls = 100, kInTurn = 12;
constexpr size_t kBytes = 4096;
constexpr Collective kAll[] = {Collective::allreduce,       Collective::bcast,      Collective::reduce,
                               Collective::allgather,       Collective::allgatherv, Collective::reduce_scatter,
                               Collective::reduce_scatterv, Collective::alltoall,   Collective::alltoallv,
                               Collective::gather,          Collective::gatherv,    Collective::scatter,
                               Collective::scatterv,        Collective::scan,       Collective::exscan};

int rank = 0, ranks = 1;

Call small_call(Collective collective, bool api) {
  Call call;
  call.collective = collective;
  call.count = 2;
  call.rank = rank;
  call.ranks = ranks;
  call.api = api;
  return call;
}

void tell_and_end(const std::string& what) {
  if (rank == 0) {
    std::printf("%s %d\n", what.c_str(), kCalls);
    std::fflush(stdout);
  }
  gc_bench_end();
}

// Counts calls that come in turn.
bool count(const std::string& what, Runner& runner, const std::vector<Call>& calls, bool whole) {
  for (int i = 0; i < kWarmup; ++i)
    for (const Call& call : calls)
      if (!run_once(runner, call)) return false;
  MPI_Barrier(MPI_COMM_WORLD);
  gc_bench_begin();
  for (size_t i = 0; i < kCalls; ++i)
    if (!gc_bench_call(&runner, &calls[i % calls.size()], whole) || (!whole && !runner.finish())) return false;
  tell_and_end(what);
  return true;
}

bool count(const std::string& form, Runner& runner, Collective collective, bool whole) {
  const Call call = small_call(collective, form == "api");
  return !runner.can(call) || count(form + "_" + name(collective), runner, {call}, whole);
}

// A dozen different calls in turn, as the buckets of a training step are.
bool count_in_turn(const std::string& form, Runner& runner, bool whole) {
  std::vector<Call> calls(kInTurn, small_call(Collective::allreduce, form == "api"));
  for (size_t i = 0; i < calls.size(); ++i) calls[i].count = i + 1;
  return count(form + "_allreduce_in_turn", runner, calls, whole);
}

// Messages of host memory. A nonblocking receive is posted before its message comes, and counts until it is complete.
void count_messages(const std::string& form) {
  char out[8] = {}, in[8];
  const int peer = 1 - rank;
  MPI_Request request;
  const auto wait = [&] { MPI_Wait(&request, MPI_STATUS_IGNORE); };
  const auto send = [&] { MPI_Send(out, sizeof out, MPI_BYTE, peer, 1, MPI_COMM_WORLD); };
  const auto recv = [&] { MPI_Recv(in, sizeof in, MPI_BYTE, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE); };
  const auto isend = [&] { MPI_Isend(out, sizeof out, MPI_BYTE, peer, 1, MPI_COMM_WORLD, &request); };
  const auto irecv = [&] { MPI_Irecv(in, sizeof in, MPI_BYTE, peer, 1, MPI_COMM_WORLD, &request); };
  const auto nothing = [] {};
  // Begin and end count; what is done between and after them does not.
  const struct {
    const char* name;
    std::function<void()> begin, end, between, after;
  } messages[] = {{"send", send, nothing, nothing, recv},
                  {"recv", nothing, recv, send, nothing},
                  {"isend", isend, wait, nothing, recv},
                  {"irecv", irecv, wait, send, nothing}};
  for (const auto& m : messages) {
    MPI_Barrier(MPI_COMM_WORLD);
    gc_bench_begin();
    for (int i = 0; i < kCalls; ++i) {
      gc_bench_message(&m.begin);
      m.between();
      gc_bench_message(&m.end);
      m.after();
    }
    tell_and_end(form + "_" + m.name);
  }
}

bool count_all(const std::string& form, Runner& runner, bool whole) {
  for (const Collective collective : kAll)
    if (!count(form, runner, collective, whole)) return false;
  return true;
}

bool count_host() {
  count_messages("host");
  return count_all("host", *host_runner(kBytes, kBytes, Form::blocking, MPI_COMM_WORLD), true) &&
         count_all("ihost", *host_runner(kBytes, kBytes, Form::nonblocking, MPI_COMM_WORLD), true);
}

bool count_device() {
  auto send = Memory::create(kBytes, MemoryKind::device, -1), recv = Memory::create(kBytes, MemoryKind::device, -1);
  if (!send || !recv) return false;
  const Buffers buffers{*std::move(send), *std::move(recv)};
  count_messages("beside");
  const auto mpi = mpi_runner(buffers, Form::blocking, MPI_COMM_WORLD);
  if (!count("beside", *host_runner(kBytes, kBytes, Form::blocking, MPI_COMM_WORLD), Collective::allreduce, true) ||
      !count_all("device", *mpi, true) || !count_in_turn("device", *mpi, true))
    return false;
  auto api = api_runner(buffers, false, MPI_COMM_WORLD);
  // Until it is launched: who waits for the stream is the application.
  return api && count_all("api", **api, false) && count_in_turn("api", **api, false);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const bool done = gpucollSetDevice(rank) == gpucollSuccess && count_host() && count_device();
  if (!done) std::fprintf(stderr, "calls: %s\n", gpucollGetLastError(nullptr));
  MPI_Finalize();
  return done ? 0 : 1;
}
