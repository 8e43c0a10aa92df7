#include "coll/mpi_communicator.h"

#include <cstring>
#include <utility>

#include "base/mutant.h"
#include "coll/match/board_line.h"
#include "mpi/staging/buffer_memory.h"

namespace gpucoll::coll {
namespace {

// However it ends.
struct LeavesOrder {
  BlockingOrder& blocking_order;
  ~LeavesOrder() { blocking_order.leave(); }
};

}  // namespace

MpiCommunicator::MpiCommunicator(const gc_comm_description& description)
    : gc_comm{},
      description_(description),
      matcher_(description_),
      hints_(*this, description_, matcher_.entries()),
      kept_(description_.size) {}

MpiCommunicator::DeviceSide& MpiCommunicator::make_device_side() {
  device_side_ = std::make_unique<DeviceSide>(*this, description_, matcher_, hints_);
  return *device_side_;
}

Result<std::unique_ptr<MpiCommunicator>> MpiCommunicator::create(const gc_comm_description& description) {
  std::unique_ptr<MpiCommunicator> self(new MpiCommunicator(description));
  GC_TRY(self->matcher_.entries().open());
  for (uint32_t order = 0; order < GC_ORDERS; ++order)
    self->orders[order].lines = self->matcher_.entries().own_lines(order);
  return self;
}

MpiCommunicator::~MpiCommunicator() {
  if (device_side_) requests().await_readers();
  stop();
  core::Closing closing;
  finish(closing);
}

void MpiCommunicator::abandon() {
  matcher_.failures().end_mpi();
  if (device_side_) requests().abandon();
}

void MpiCommunicator::stop() {
  if (!device_side_) return;
  requests().stop();
  groups().stop();
  device_side_->blocking_order.leave_thread();
}

void MpiCommunicator::finish(core::Closing& closing) {
  if (!device_side_) return;
  requests().finish(closing);
  runtime().finish(closing);
  groups().finish(closing);
  requests().release();
  made_.scratch.release();
}

void MpiCommunicator::find_peers() {
  if (peers_found_) return;
  peers_found_ = true;
  MpiProcess::instance().show_pulse();
  int rank = 0;
  if (Status found = matcher_.entries().find_peers(&rank); !found)
    for (MpiRuntime* each : {&runtime(), &requests().persistent_runtime()}) each->stage_for_ever(rank, found);
}

void MpiCommunicator::look_at_wishes(uint32_t form) {
  if (!used_device()) return hints_.look(form, false);  // this process computes on the host
  find_peers();
  const MpiRuntime& runs = form == GC_FORM_PERSISTENT ? requests().persistent_runtime() : runtime();
  hints_.look(form, !runs.staging().for_all());
}

// ---- who takes part ----

Component* MpiCommunicator::among() { return call_->place.order == GC_ORDER_NEIGHBORS ? &component_ : nullptr; }

bool MpiCommunicator::is_everybody() {
  return !among() || component_.ranks.size() == static_cast<size_t>(description_.size);
}

bool MpiCommunicator::knows_neighbors(const gc_call& call) {
  if (!among() || !component_.ranks.empty()) return true;
  const Status told = tell_neighbors(matcher_.entries(), call, &component_);
  if (!told) runtime().staging().tell(function_name(call.function), told);
  return told.ok();
}

// Those who take no part say what this rank does, on the devices that they are known to have.
void MpiCommunicator::take_lines() {
  if (!is_everybody()) {
    const auto n = static_cast<size_t>(description_.size);
    call_->lines.assign(n, matcher_.entries().own_line(call_->place));
    for (size_t r = 0; r < n && runtime().get(); ++r)
      std::memcpy(call_->lines[r].device, runtime().bound()[r].device, sizeof call_->lines[r].device);
  }
  const bool as_before = matcher_.read_lines(call_->place, &call_->lines, among());
  call_->has_run_so = call_->has_run_so && (as_before || gc_mutant(572));
}

// ---- one call ----

Result<bool> MpiCommunicator::make(const gc_call& call, Status* refusal) {
  auto planned = runtime().plan(call, call_);
  if ((planned && !*planned) || !knows_neighbors(call)) {
    matcher_.publish(call_->place, GC_KIND_HOST, {});
    *refusal = std::move(planned).status();
    return false;
  }
  if (!planned) {
    GC_TRY(matcher_.refuse(call_->place));
    *refusal = std::move(planned).status();
    return false;
  }
  call_->line = line_of(call, description_.rank, description_.size, *call_->part.device);
  if (!runtime().get() && is_everybody()) call_->line.flags |= groups().offer(*call_, true);
  return true;
}

Result<bool> MpiCommunicator::enter(const gc_call& call, Status* refusal) {
  find_peers();
  if (call_ == &made_) {
    GC_TRY_AS(const bool made, make(call, refusal));
    if (!made) return false;
  }
  const bool device_memory = call_->part.has_device_memory;
  const uint32_t kind = device_memory ? GC_KIND_DEVICE : GC_KIND_EITHER;
  if (call.before) {
    matcher_.publish(call_->place, kind, call_->line);  // ready only once that has been done
  } else {
    call_->line.number = GC_NUMBER_COMING;
    device_side_->blocking_order.enter(call_->place);
    matcher_.publish(call_->place, kind, call_->line);
    matcher_.numbers().give_number(call_->place);
  }
  return wait_for_others(call, device_memory, refusal);
}

Result<bool> MpiCommunicator::wait_for_others(const gc_call& call, bool device_memory, Status* refusal) {
  int by = -1;
  GC_TRY_AS(const bool all, matcher_.all_on_device(call_->place, runtime().get(), device_memory, &by, among()));
  if (by >= 0) {
    *refusal = matcher_.refusal_of(by, call_->place);
    return false;
  }
  hints_.weigh(GC_FORM_BLOCKING, call.function, call_->part, all);
  if (!all && device_memory) runtime().staging().tell(function_name(call.function), Cause::other_rank);
  if (!all) return false;
  take_lines();
  if (!description_.two_groups) GC_TRY(take_number());
  return true;
}

// Then the others may write their lines anew.
Status MpiCommunicator::take_number() {
  GC_TRY(device_side_->blocking_order.set_number(call_->place, among()));
  if (!matcher_.holds_everybody(call_->place)) matcher_.decide(call_->place);
  return {};
}

// Connects. First it waits for earlier calls: their failure could not be told from a failure to connect.
Result<bool> MpiCommunicator::prepare() {
  GC_TRY_AS(const bool prepared, runtime().prepared(*call_));
  if (prepared) return true;
  while (!requests().settled()) {
    requests().turn();
    description_.calls->progress();
  }
  return runtime().prepare(*call_, description_.calls->progress);
}

// Reduces within the group. REQUIRES: there are two. The calls that this makes come first on all ranks: until they are
// over a rank is not ready for this one.
Status MpiCommunicator::reduce_within_group(const gc_call& call) {
  if (call.before) {
    if (call.before(description_.ctx) != 0)
      return Status::error(Code::remote, "the part of %s on %s within the group of rank %d has failed",
                           function_name(call.function), description_.name, description_.rank);
    device_side_->blocking_order.enter(call_->place);
    matcher_.numbers().get_ready(call_->place);
    matcher_.numbers().give_number(call_->place);
  }
  return take_number();
}

Result<MpiCommunicator::Answer> MpiCommunicator::run_in_groups(const gc_call& call) {
  if (description_.two_groups) GC_TRY(reduce_within_group(call));
  GC_TRY_AS(const GroupRuntime::Outcome outcome, groups().run(*call_, device_side_->blocking_order));
  if (outcome != GroupRuntime::Outcome::done) return Answer::stage;
  call_->part.packing.on_host().store();
  return Answer::done;
}

// Returns whether this rank's runtime communicator can run the call; tells where it cannot.
bool MpiCommunicator::fits(const gc_call& call) {
  // Without all ranks no runtime communicator can be made: what they do together makes it.
  if (runtime().get() || is_everybody()) return runtime().fits(*call_, groups().why_not());
  runtime().staging().tell(function_name(call.function), Cause::neighbors_first);
  return false;
}

// Does not look again whether a call fits that has run with these lines.
Result<MpiCommunicator::Answer> MpiCommunicator::run_on_device(const gc_call& call) {
  if (!call_->has_run_so) {
    if (is_everybody() && groups().fits(*call_)) return run_in_groups(call);
    if (!fits(call)) return Answer::stage;
  }
  if (!runtime().is_kept(*call_)) {
    GC_TRY_AS(const bool ready, prepare());
    if (!ready) return Answer::stage;
  }
  if (description_.two_groups) GC_TRY(reduce_within_group(call));
  BlockingOrder& blocking_order = device_side_->blocking_order;
  blocking_order.wait_until_first();
  GC_TRY(runtime().launch(*call_));
  blocking_order.leave();
  GC_TRY(runtime().await_end());
  call_->part.packing.on_host().store();
  return Answer::done;
}

// REQUIRES: every rank has come with device memory. `same`: whether they call the same, on all ranks alike.
Result<MpiCommunicator::Answer> MpiCommunicator::execute(const gc_call& call, bool same) {
  auto answer = same ? run_on_device(call) : Result<Answer>(Answer::stage);
  if (!answer) return answer;
  const bool done = *answer == Answer::done;
  if (!done || !matcher_.holds_everybody(call_->place))
    GC_TRY(matcher_.await_decisions(call_->place, runtime().get(), among()));
  return answer;
}

Result<MpiCommunicator::Answer> MpiCommunicator::run(const gc_call& call, DeviceCall* kept) {
  call_ = kept ? kept : &made_;
  call_->place = {call.order, ++orders[call.order].sequence, call.function};
  if (call.order == GC_ORDER_BLOCKING) call_->place.begun_before = orders[GC_ORDER_NONBLOCKING].sequence;
  GC_TRY(matcher_.failures().usable());
  Status refusal;
  auto on_device = contained([&] { return enter(call, &refusal); });
  const LeavesOrder ends{device_side().blocking_order};
  if (!on_device) {
    requests().raise_faults(on_device.status());
    matcher_.failures().fail(call_->place, *this, on_device.status());
    return std::move(on_device).status();
  }
  if (!*on_device) {
    if (call_ == &made_) made_.part.clear();  // the previous module may want its page-locked memory
    if (!refusal) return refusal;
    return Answer::stage;
  }
  Status same =
      call_->has_run_so ? Status() : check_same_call(call.function, call_->lines, description_.rank, description_.name);
  auto answer = contained([&] { return execute(call, same.ok()); });
  call_->has_run_so = (answer && *answer == Answer::done) || gc_mutant(573);
  if (call_->has_run_so && call_ == &made_) kept_.keep(call, made_);
  if (answer && call_ == &made_) made_.part.clear();
  if (!answer) {
    requests().raise_faults(answer.status());
    groups().fail(answer.status());
    matcher_.failures().fail(call_->place, *this, answer.status());
    return std::move(answer).status();
  }
  if (!same) return same;  // the communicator stays as good as it was
  return answer;
}

Result<Request*> MpiCommunicator::start(uint32_t function, const gc_call* call) {
  if (call) find_peers();
  return requests().start(function, call);
}

void MpiCommunicator::refuse(uint32_t order, uint32_t function) {
  if (function == GC_FUNCTION_none) return;
  log::write(log::Level::error, "rank %d calls %s on %s with NULL for a buffer that is not empty", description_.rank,
             name_of({order, 0, function}), description_.name);
  find_peers();
  if (order == GC_ORDER_NONBLOCKING) return requests().refuse(function);
  const CallId place = {order, ++orders[order].sequence, function};
  if (runtime().staging().for_all()) return matcher_.publish(place, GC_KIND_HOST, {});  // as all do
  if (Status refused = matcher_.refuse(place); !refused) {
    matcher_.failures().fail(place, *this, refused);
    guarded_report(function_name(function), refused);
  }
}

// Ends: each call that is first is decided or fails within the timeout.
void MpiCommunicator::drain() {
  while (device_side_ && requests().queued()) {
    requests().turn();
    description_.calls->progress();
  }
}

}  // namespace gpucoll::coll
