// The table of functions behind the MPI component (abi/abi.h). Each body is one call of guarded().
#include "abi/abi.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <set>

#include "base/environment.h"
#include "base/log.h"
#include "base/observe/counters.h"
#include "base/observe/trace.h"
#include "base/params.h"
#include "coll/call/call_bytes.h"
#include "coll/mpi_communicator.h"
#include "coll/reduce_local.h"
#include "coll/traced_calls.h"
#include "coll/traced_messages.h"
#include "core/comm/closing.h"
#include "core/comm/reclaim.h"
#include "gpu/program_copies.h"
#include "mpi/datatype/address.h"
#include "mpi/datatype/type_cache.h"
#include "mpi/error_class.h"
#include "mpi/message_causes.h"
#include "mpi/mpi_process.h"
#include "mpi/staging/packed_copy.h"
#include "mpi/staging/pinned_pool.h"
#include "mpi/staging/pipelined_copy.h"
#include "mpi/staging/program_memory.h"
#include "mpi/staging/strided_copy.h"

namespace gpucoll::coll {
namespace {

// All communicators of the engine, for the process's end.
struct Live {
  std::mutex mutex;
  std::set<MpiCommunicator*> communicators;
};
Live& live() {
  static Live* l = new Live;
  return *l;
}

static_assert(GC_LEVEL_USER == static_cast<int>(ParamLevel::user) &&
              GC_LEVEL_TUNING == static_cast<int>(ParamLevel::tuning) &&
              GC_LEVEL_DEVELOPER == static_cast<int>(ParamLevel::developer));

int param(size_t index, gc_param* out) {
  size_t count = 0;
  const ParamInfo* table = param_table(&count);
  if (index >= count) return 0;
  const ParamInfo& info = table[index];
  out->name = info.name;
  out->help = info.help;
  switch (info.type) {
    case ParamType::integer: out->kind = "int"; break;
    case ParamType::size: out->kind = "size"; break;
    case ParamType::boolean: out->kind = "bool"; break;
    case ParamType::choice: out->kind = info.choices; break;
    case ParamType::text: out->kind = "text"; break;
  }
  out->level = static_cast<int>(info.level);
  std::snprintf(out->value, sizeof out->value, "%s", param_text(info).c_str());
  return 1;
}

int set_param(const char* name, const char* text) {
  return mpi_class(guarded("parameters", [&] { return gpucoll::set_param(name, text, "mca"); }));
}

int old_param(size_t index, const char** name) {
  *name = old_param_name(index);
  return *name != nullptr;
}

int64_t param_value(const char* name) {
  size_t count = 0;
  const ParamInfo* table = param_table(&count);
  for (size_t i = 0; i < count; ++i)
    if (table[i].member && std::string_view(table[i].name) == name) return params().*table[i].member;
  return -1;
}

using SinkFunction = void (*)(int level, const char* line);
SinkFunction the_sink = nullptr;

void set_log_sink(SinkFunction sink) {
  the_sink = sink;
  log::Sink forward = [](log::Level level, const char* line) { the_sink(static_cast<int>(level), line); };
  log::set_sink(sink ? forward : nullptr);
}

void log_text(int level, const char* text) { log::write(static_cast<log::Level>(level), "%s", text); }

gc_abi* table();

// Before anything that can be recorded.
int process_open(gc_process_blob* mine, int tells) {
  warn_of_unknown_variables(tells);
  trace::start();
  if (trace::on()) {
    trace_calls(table());
    trace_messages(table());
  }
  return mpi_class(guarded("starting", [&] { return MpiProcess::instance().open(mine); }));
}

// Bounds the wait for other ranks' work, also before they end MPI.
constexpr auto kUntilTold = std::chrono::milliseconds(1000);

void process_close(void (*progress)()) {
  if (is_forked_child()) return;
  guarded("ending", [&]() -> Status {
    {
      std::lock_guard lock(live().mutex);
      // First all: stopping or finishing one waits for other ranks, which may be at another one.
      for (MpiCommunicator* c : live().communicators) c->abandon();
      for (MpiCommunicator* c : live().communicators) c->stop();
      core::Closing closing;
      for (MpiCommunicator* c : live().communicators) c->finish(closing);
    }
    int64_t patience_s = params().timeout ? std::min<int64_t>(params().timeout, 60) : 60;
    bool drained = core::drain_reclaimed(kUntilTold.count(), progress);
    if (!drained) {
      MpiProcess::instance().end();  // perhaps they wait for this process
      drained = core::drain_reclaimed(patience_s * 1000, progress);
    }
    if (!drained)
      log::write(log::Level::warn, "peers still hold memory of this process %lld s after MPI_Finalize began",
                 static_cast<long long>(patience_s));
    PinnedPool::instance().clear();
    PinnedPool::of_calls().clear();
    return {};
  });
}

void process_ended() {
  if (!is_forked_child()) MpiProcess::instance().end();
}

// The device of the last device buffer that this thread has asked about: where staging memory is pinned.
thread_local const void* last_device_pointer = nullptr;

// Waits for what the program has just copied there. out: what the device runtime says of the memory.
gpu::Device* device_of(const void* pointer, gpu::PointerInfo* out = nullptr) {
  if (!pointer) return nullptr;
  auto platform = gpu::platform();
  if (!platform) return nullptr;
  gpu::PointerInfo info = (*platform)->classify(pointer);
  if (out) *out = info;
  if (info.kind == gpu::MemoryKind::host || info.kind == gpu::MemoryKind::pinned) return nullptr;
  gpu::await_program_copies(pointer, info);
  // Memory that was freed belongs to no device: any device says so.
  auto device = (*platform)->open(info.device >= 0 ? info.device : (*platform)->current_device());
  return device ? *device : nullptr;
}

int is_device(const void* pointer) {
  bool device = gpu::is_device_pointer(pointer);
  if (device) last_device_pointer = pointer;
  return device;
}

int device_number(const void* pointer) {
  auto platform = gpu::platform();
  if (!platform) return -1;
  const gpu::PointerInfo info = (*platform)->classify(pointer);
  gpu::await_program_copies(pointer, info);
  return device_holding(info);
}

bool is_pageable(const void* pointer) {
  if (PinnedPool::instance().is_pinned(pointer)) return false;
  auto platform = gpu::platform();
  return platform && (*platform)->classify(pointer).kind == gpu::MemoryKind::host;
}

void count_staged(uint64_t bytes) {
  count(Counter::staged_copies);
  count(Counter::staged_bytes, bytes);
}

int copy(void* dst, const void* src, size_t bytes) {
  count_staged(bytes);
  return mpi_class(guarded("staging", [&]() -> Status {
    const void* owner = gpu::is_device_pointer(dst) ? dst : src;
    last_device_pointer = owner;
    gpu::PointerInfo info;
    gpu::Device* device = device_of(owner, &info);
    if (!device) return Status::error(Code::invalid_argument, "neither %p nor %p is device memory", dst, src);
    GC_TRY_AS(gpu::Platform* const platform, gpu::platform());
    GC_TRY(check_allocated(*platform, info, owner, bytes));
    const void* host = owner == dst ? src : dst;
    if (bytes <= usual_piece(*device) || !is_pageable(host)) return device->copy(dst, src, bytes);
    return copy_pipelined(*device, dst, src, bytes, usual_piece(*device)).status();
  }));
}

int copy_strided(void* host, void* on_device, const gc_runs* runs, size_t n, int to_device) {
  bool able = true;
  const Code code = guarded("staging", [&]() -> Status {
    gpu::Device* device = device_of(static_cast<char*>(on_device) + runs[0].offset);
    if (!device) return Status::error(Code::invalid_argument, "%p is not device memory", on_device);
    const ProgramData data = {on_device, runs, n, 1, 0};
    await_program_copies(data);
    GC_TRY_AS(gpu::Platform* const platform, gpu::platform());
    GC_TRY(check_allocated(*platform, data));
    Status copied = coll::copy_strided(*device, host, on_device, runs, n, to_device);
    able = copied.code() != Code::unsupported;
    return able ? std::move(copied) : Status();
  });
  if (!able) return GC_STAGE;
  count_staged(bytes_of(runs, n));
  return mpi_class(code);
}

int copy_packed(const gc_type_map* map, void* memory, void* packed, size_t bytes, int to_device) {
  count_staged(bytes);
  return mpi_class(guarded("packing", [&]() -> Status {
    const ProgramData data = elements_of(*map, memory, bytes);
    const void* const owner = await_program_copies(data).on_device;
    last_device_pointer = owner;
    gpu::Device* device = device_of(owner);
    if (!device) return Status::error(Code::invalid_argument, "%p is not device memory", owner);
    GC_TRY_AS(gpu::Platform* const platform, gpu::platform());
    GC_TRY(check_allocated(*platform, *map, memory, bytes));
    return coll::copy_packed(*device, *map, memory, packed, bytes, to_device);
  }));
}

template <class Get>
void* stage_by(size_t bytes, const Get& get) {
  void* stage = nullptr;
  guarded("staging", [&]() -> Status {
    stage = get(PinnedPool::instance(), device_of(last_device_pointer));
    return stage ? Status()
                 : Status::error(Code::out_of_memory, "no %zu bytes of host memory to stage a device buffer", bytes);
  });
  return stage;
}

void* stage_get(size_t bytes) {
  return stage_by(bytes, [bytes](PinnedPool& pool, gpu::Device* device) { return pool.get(device, bytes); });
}
void* stage_reserve(size_t bytes) {
  return stage_by(bytes, [bytes](PinnedPool& pool, gpu::Device* device) { return pool.reserve(device, bytes); });
}

void stage_put(void* stage) { PinnedPool::instance().put(stage); }

gc_comm* comm_new(const gc_comm_description* description) {
  gc_comm* made = nullptr;
  guarded(description->name, [&]() -> Status {
    GC_TRY_AS(auto communicator, MpiCommunicator::create(*description));
    std::lock_guard lock(live().mutex);
    live().communicators.insert(communicator.get());
    made = communicator.release();
    return {};
  });
  return made;
}

void comm_free(gc_comm* comm) {
  if (!comm || is_forked_child()) return;
  auto* communicator = static_cast<MpiCommunicator*>(comm);
  {
    std::lock_guard lock(live().mutex);
    live().communicators.erase(communicator);
  }
  delete communicator;
}

// kept: the call as it is kept, or null.
int run(MpiCommunicator& communicator, const gc_call& call, KeptCall* kept) {
  auto answer = MpiCommunicator::Answer::done;
  count(Counter::calls);
  count(Counter::bytes, kept ? kept->bytes : bytes_of(call, static_cast<size_t>(communicator.size())));
  Code code = guarded(function_name(call.function), [&]() -> Status {
    GC_TRY_AS(answer, communicator.run(call, kept ? &kept->made : nullptr));
    return {};
  });
  if (code != Code::ok) return mpi_class(code);
  if (answer == MpiCommunicator::Answer::done) return MPI_SUCCESS;
  count(Counter::calls_staged);
  return GC_STAGE;
}

int run(gc_comm* comm, const gc_call* call) {
  auto& communicator = *static_cast<MpiCommunicator*>(comm);
  return run(communicator, *call, communicator.find(*call));
}

int run_again(gc_comm* comm, const gc_arguments* arguments) {
  auto& communicator = *static_cast<MpiCommunicator*>(comm);
  KeptCall* const kept = communicator.find(*arguments);
  return kept ? run(communicator, kept->call, kept) : GC_ANEW;
}

int start(gc_comm* comm, uint32_t function, const gc_call* call, gc_pending** pending) {
  if (call) count(Counter::requests);
  return mpi_class(guarded(function_name(function), [&]() -> Status {
    GC_TRY_AS(*pending, static_cast<MpiCommunicator*>(comm)->start(function, call));
    return {};
  }));
}

void refuse(gc_comm* comm, uint32_t order, uint32_t function) {
  guarded(function_name(function), [&]() -> Status {
    static_cast<MpiCommunicator*>(comm)->refuse(order, function);
    return {};
  });
}

void turn(gc_comm* comm) { static_cast<MpiCommunicator*>(comm)->requests().turn(); }

void host_begun(gc_pending* pending) {
  auto* call = static_cast<Request*>(pending);
  call->owner.host_begun(call);
}

int end(gc_pending* pending) {
  auto* call = static_cast<Request*>(pending);
  return mpi_class(call->owner.end(call));
}

void restart(gc_pending* pending) {
  auto* call = static_cast<Request*>(pending);
  call->owner.restart(call);
}

void publish_starts(gc_comm* comm) { static_cast<MpiCommunicator*>(comm)->requests().publish_starts(); }

void free_persistent(gc_pending* pending) {
  auto* call = static_cast<Request*>(pending);
  call->owner.free(call);
}

void drain(gc_comm* comm) { static_cast<MpiCommunicator*>(comm)->drain(); }

uint64_t runs() { return RunCounts::runs(); }
uint64_t launches() { return RunCounts::launches(); }

void look_at_wishes(gc_comm* comm, uint32_t form) {
  guarded("looking at the other ranks", [&]() -> Status {
    static_cast<MpiCommunicator*>(comm)->look_at_wishes(form);
    return {};
  });
}

int reduce_local(const void* in, void* inout, size_t count, int type, int op) {
  bool done = false;
  const Code code = guarded("MPI_Reduce_local", [&]() -> Status {
    gpu::Device *const of_result = device_of(inout), *const of_operand = device_of(in);
    gpu::Device* const device = of_result ? of_result : of_operand;
    if (!device || type < 0 || op < 0) return {};
    GC_TRY_AS(done, coll::reduce_local(*device, in, inout, count, static_cast<gpucollDataType_t>(type),
                                       static_cast<gpucollRedOp_t>(op)));
    if (done) RunCounts::count_run();
    return {};
  });
  return code == Code::ok && !done ? GC_STAGE : mpi_class(code);
}

void* device_get(const void* like, size_t bytes) {
  void* memory = nullptr;
  guarded("device memory", [&]() -> Status {
    gpu::Device* device = device_of(like);
    if (!device) return Status::error(Code::invalid_argument, "%p is not device memory", like);
    GC_TRY_AS(memory, device->user_allocate(bytes));
    return {};
  });
  return memory;
}

void device_put(void* memory) {
  gpu::Device* device = is_forked_child() ? nullptr : device_of(memory);
  if (device) device->user_release(memory).ignore();
}

uint64_t counter(size_t index, const char** name, const char** help) {
  const CounterInfo* const info = counter_info(index);
  if (!info) return 0;
  if (name) *name = info->name;
  if (help) *help = info->help;
  return counter_value(index);
}

void tell_slow(gc_comm* comm, uint32_t function, uint32_t cause) {
  guarded("telling why a call is slow", [&]() -> Status {
    static_cast<MpiCommunicator*>(comm)->tell_slow(function, static_cast<Cause>(cause));
    return {};
  });
}

void tell_slow_message(uint64_t context, const char* comm, uint32_t cause) {
  coll::tell_slow_message(context, comm, static_cast<Cause>(cause));
}

void forget_map(uint64_t id) { TypeCache::instance().forget(id); }

gc_abi* table() {
  static_assert(sizeof(gc_pointer_hint) == sizeof(gpu::PointerHint));
  static gc_abi abi = {GC_ABI_VERSION,
                       sizeof(gc_abi),
                       library_version(),
                       param,
                       old_param,
                       set_param,
                       param_value,
                       set_log_sink,
                       log_text,
                       process_open,
                       process_close,
                       process_ended,
                       reinterpret_cast<const gc_pointer_hint*>(&gpu::pointer_hint()),
                       is_device,
                       device_number,
                       copy,
                       copy_strided,
                       copy_packed,
                       stage_get,
                       stage_reserve,
                       stage_put,
                       comm_new,
                       comm_free,
                       run,
                       run_again,
                       start,
                       turn,
                       host_begun,
                       end,
                       restart,
                       publish_starts,
                       free_persistent,
                       drain,
                       refuse,
                       runs,
                       launches,
                       look_at_wishes,
                       forget_map,
                       reduce_local,
                       device_get,
                       device_put,
                       counter,
                       tell_slow,
                       tell_slow_message,
                       nullptr,
                       nullptr};
  return &abi;
}

}  // namespace
}  // namespace gpucoll::coll

extern "C" const gc_abi* gpucoll_abi(uint32_t version) {
  return version == GC_ABI_VERSION ? gpucoll::coll::table() : nullptr;
}
