#include "coll/runtime/mpi_runtime.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "base/mutant.h"
#include "coll/match/board_bootstrap.h"
#include "kernels/kernels.h"

namespace gpucoll::coll {
namespace {

// Returns whether two ranks use one device on which their kernels cannot run side by side: then they would wait for
// each other's time slices.
bool is_device_shared(const std::vector<gc_board_line>& lines) {
  for (size_t a = 0; a < lines.size(); ++a)
    for (size_t b = a + 1; b < lines.size(); ++b)
      if (!std::memcmp(lines[a].device, lines[b].device, sizeof lines[a].device) &&
          !(lines[a].flags & lines[b].flags & GC_DEVICE_SHARES))
        return true;
  return false;
}

}  // namespace

void MpiRuntime::finish(core::Closing& closing) {
  if (!runtime_) return;
  made_.store(nullptr, std::memory_order_relaxed);
  closing.add(std::move(runtime_));
  staging_.end();
}

// Tells a reason that the user can mend once, by one rank where all see it; other reasons only where choices are asked
// for.
void MpiRuntime::stage_for_ever(int because_of, const Status& why) {
  const bool here_only = why.code() != Code::invalid_usage;
  const bool warn = why.code() != Code::unsupported && (here_only || description_.rank == 0);
  staging_.begin_for_all(Cause::unreachable_rank, "rank " + std::to_string(because_of) + " " + why.what(),
                         warn ? log::Level::warn : log::Level::info);
}

Result<bool> MpiRuntime::plan(const gc_call& call, DeviceCall* made) {
  if (staging_.for_all()) {
    staging_.tell_of_all();
    return false;
  }
  Status status = make_part(call, description_.rank, description_.size, usual_, made->scratch, &made->part);
  if (made->part.is_wrong) return status;
  if (!status) staging_.tell(function_name(call.function), status);
  made->pairs_with_gaps = reduces_pairs_with_gaps(call);
  made->has_run_so = false;
  made->kept = {};
  return status.ok();
}

bool MpiRuntime::same_devices(const std::vector<gc_board_line>& lines) const {
  for (size_t r = 0; r < lines.size(); ++r)
    if (std::memcmp(lines[r].device, bound_[r].device, sizeof lines[r].device)) return false;
  return true;
}

// A runtime communicator exists only on devices that are not shared.
bool MpiRuntime::suits(const DeviceCall& call) const {
  if (staging_.for_all()) return false;
  return runtime_ ? same_devices(call.lines) : !is_device_shared(call.lines);
}

bool MpiRuntime::fits(const DeviceCall& call, Cause if_shared) {
  if (suits(call)) return true;
  if (staging_.for_all())
    staging_.tell_of_all();
  else
    staging_.tell(name_of(call.place), runtime_ ? Cause::other_devices : if_shared);
  return false;
}

Status MpiRuntime::make(const DeviceCall& call, void (*idle)()) {
  BoardBootstrap bootstrap(description_, matcher_, meeting_, call.place, idle, ranks_);
  core::Surroundings surroundings = {ranks_, {}, staging_.causes()};
  if (!ranks_.empty())
    surroundings.bystanders = matcher_.entries().bystanders();  // whom the others of `ranks_` may wait for
  GC_TRY_AS(runtime_, core::Communicator::create(*call.part.device, {all_kernels(), move_kernel(), packing_kernel()},
                                                 bootstrap, surroundings));
  bound_ = call.lines;
  usual_ = call.part.device;
  made_.store(runtime_.get(), std::memory_order_release);  // partner: get()
  return {};
}

Status MpiRuntime::put_on_stream(DevicePart& part) {
  GC_TRY_AS(const gpu::Stream stream, runtime_->workspace().stream());
  part.queue.streams.assign(1, stream);
  for (core::CollectiveTask& task : part.queue.collectives) task.stream = stream;
  return {};
}

// Looks up what is kept of the call, and returns what prepared() does.
Result<bool> MpiRuntime::looked_up(DeviceCall& call) {
  if (!runtime_) return false;
  if (runtime_->fault().raised()) return runtime_->fault().status();
  GC_TRY(put_on_stream(call.part));
  GC_TRY_AS(shape_, runtime_->shape(call.part.queue.streams));
  call.kept = runtime_->kept(call.part.queue, shape_);
  if (call.kept) return true;
  runtime_->replace_by_messages(&call.part.queue, shape_);
  return runtime_->connected(core::required_by(call.part.queue, runtime_->rank(), shape_));
}

Result<bool> MpiRuntime::prepare(DeviceCall& call, void (*idle)()) {
  if (!runtime_) {
    if (Status made = make(call, idle); !made) {  // which all ranks see alike
      GC_TRY(matcher_.failures().others());
      // A persistent call may have been made and never be started: where ranks end MPI it cannot be.
      const bool idle_call = meeting_ == GC_MEETING_PERSISTENT && matcher_.failures().any_ending();
      // Through the host, Open MPI would wait for ever for a rank that does not come.
      if (made.blames() && !idle_call) return made;
      staging_.begin_for_all(Cause::no_devices_together, made.what(), idle_call ? log::Level::info : log::Level::warn);
      staging_.tell_of_all();
      return false;
    }
  }
  // Where a mesh turns out to be impossible, something else is needed.
  for (;;) {
    GC_TRY_AS(const bool all, prepared(call));
    if (all) return true;
    // A failure is its fault, and all ranks': nobody goes on without it.
    GC_TRY(runtime_->connect(core::required_by(call.part.queue, runtime_->rank(), shape_), idle));
  }
}

// The trees of channels differ, and with them the order of reduction; where it runs depends on the others. So do rings,
// where several nodes have several ranks.
bool MpiRuntime::joins(const DeviceCall& call) const {
  const core::Requirements required = core::required_by(call.part.queue, runtime_->rank(), shape_);
  return !required.tree && !(required.reduces_in_ring && runtime_->nodes().rings_differ());
}

bool MpiRuntime::connected(const core::TaskQueue& together) const {
  return runtime_->connected(core::required_by(together, runtime_->rank(), shape_));
}

Result<bool> MpiRuntime::has_run(uint64_t launches) {
  using Clock = std::chrono::steady_clock;
  constexpr auto kGrace = std::chrono::seconds(10);  // for kernels to leave after a fault
  const core::Fault& fault = runtime_->fault();
  const bool done = runtime_->done(launches);
  if (!fault.raised()) {
    if (done) RunCounts::count_run();
    return done;
  }
  if (fault_seen_ == Clock::time_point()) fault_seen_ = Clock::now();
  if (!done && Clock::now() - fault_seen_ < kGrace) return false;
  return fault.status();
}

Status MpiRuntime::begin(const core::TaskQueue& together) { return runtime_->begin(together, shape_); }

}  // namespace gpucoll::coll
