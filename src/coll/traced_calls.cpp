#include "coll/traced_calls.h"

#include <mpi.h>

#include <string>
#include <utility>

#include "base/observe/trace.h"
#include "coll/call/call_bytes.h"
#include "coll/mpi_communicator.h"

namespace gpucoll::coll {
namespace {

using trace::Way;
using trace::What;

gc_abi plain;  // the functions behind these

// Each function below first looks whether this process records: a forked child has this table, too.

Way way_of(int answer) noexcept {
  if (answer == GC_STAGE) return Way::staged;
  return answer == MPI_SUCCESS ? Way::on_device : Way::failed;
}

gc_comm* comm_new(const gc_comm_description* description) {
  if (!trace::on()) return plain.comm_new(description);
  gc_comm* const made = plain.comm_new(description);
  if (!made) return made;
  const uint64_t name = static_cast<MpiCommunicator*>(made)->name();
  trace::name_group(name, description->rank, description->size, description->name);
  if (description->two_groups) trace::copied_label(("two sides\t" + std::to_string(name)).c_str());
  return made;
}

int run(gc_comm* comm, const gc_call* call) {
  if (!trace::on()) return plain.run(comm, call);
  auto& communicator = *static_cast<MpiCommunicator*>(comm);
  const uint64_t record = trace::begin({.what = What::call,
                                        .label = trace::label(function_name(call->function)),
                                        .group = communicator.name(),
                                        .number = comm->orders[call->order].sequence + 1,
                                        .bytes = bytes_of(*call, static_cast<size_t>(communicator.size()))});
  const int answer = plain.run(comm, call);
  trace::end(record, way_of(answer));
  return answer;
}

// A call that comes again is recorded as the others are: by run(), which finds it, too.
int run_again(gc_comm* comm, const gc_arguments* arguments) {
  return trace::on() ? GC_ANEW : plain.run_again(comm, arguments);
}

// Records that a request was started at this time. The component ends the start by host_begun() or end().
void begin(Request& request, int64_t begin_ns) noexcept {
  const CallId& place = request.call.place;
  request.traced = trace::begin_ongoing(begin_ns, {.what = What::request,
                                                   .label = trace::label(name_of(place)),
                                                   .group = request.traced_group,
                                                   .number = place.number,
                                                   .bytes = request.traced_bytes});
}

void end(Request& request, Way way) noexcept { trace::end(std::exchange(request.traced, {}), way); }

// The component alone frees the request, behind host_begun() or end().
int start(gc_comm* comm, uint32_t function, const gc_call* call, gc_pending** pending) {
  if (!trace::on()) return plain.start(comm, function, call, pending);
  const int64_t begin_ns = monotonic_ns();
  const int answer = plain.start(comm, function, call, pending);
  if (answer != MPI_SUCCESS || !*pending) return answer;
  auto& request = *static_cast<Request*>(*pending);
  request.traced_bytes = call ? bytes_of(*call, static_cast<size_t>(static_cast<MpiCommunicator*>(comm)->size())) : 0;
  request.traced_group = static_cast<MpiCommunicator*>(comm)->name();
  if (!(function & GC_PERSISTENT)) begin(request, begin_ns);
  return answer;
}

void host_begun(gc_pending* pending) {
  if (!trace::on()) return plain.host_begun(pending);
  end(*static_cast<Request*>(pending), Way::staged);
  plain.host_begun(pending);
}

int end(gc_pending* pending) {
  if (!trace::on()) return plain.end(pending);
  auto& request = *static_cast<Request*>(pending);
  end(request, request.code == Code::ok ? Way::on_device : Way::failed);
  return plain.end(pending);
}

void restart(gc_pending* pending) {
  if (!trace::on()) return plain.restart(pending);
  begin(*static_cast<Request*>(pending), monotonic_ns());
  plain.restart(pending);
}

int copy(void* dst, const void* src, size_t bytes) {
  if (!trace::on()) return plain.copy(dst, src, bytes);
  const uint64_t record = trace::begin({.what = What::staging, .bytes = bytes});
  const int answer = plain.copy(dst, src, bytes);
  trace::end(record);
  return answer;
}

int copy_strided(void* host, void* device, const gc_runs* runs, size_t n, int to_device) {
  if (!trace::on()) return plain.copy_strided(host, device, runs, n, to_device);
  const uint64_t record = trace::begin({.what = What::staging, .bytes = bytes_of(runs, n)});
  const int answer = plain.copy_strided(host, device, runs, n, to_device);
  trace::end(record);
  return answer;
}

int copy_packed(const gc_type_map* map, void* memory, void* packed, size_t bytes, int to_device) {
  if (!trace::on()) return plain.copy_packed(map, memory, packed, bytes, to_device);
  const uint64_t record = trace::begin({.what = What::staging, .bytes = bytes});
  const int answer = plain.copy_packed(map, memory, packed, bytes, to_device);
  trace::end(record);
  return answer;
}

}  // namespace

void trace_calls(gc_abi* table) noexcept {
  if (plain.run) return;
  plain = *table;
  table->comm_new = comm_new;
  table->run = run;
  table->run_again = run_again;
  table->start = start;
  table->host_begun = host_begun;
  table->end = end;
  table->restart = restart;
  table->copy = copy;
  table->copy_strided = copy_strided;
  table->copy_packed = copy_packed;
}

}  // namespace gpucoll::coll
