#include "coll/request/request_driver.h"

#include <chrono>
#include <utility>

#include "base/log.h"
#include "base/mutant.h"
#include "base/params.h"
#include "coll/match/board_line.h"

namespace gpucoll::coll {
namespace {

using Clock = std::chrono::steady_clock;

Status aborted() { return Status::error(Code::aborted, "MPI is being finalized while it is under way"); }

Status ended() {
  return Status::error(Code::aborted, "MPI is being finalized: all ranks must complete the same collectives before");
}

}  // namespace

void RequestDriver::go_on() {
  sequence_.publish_more();
  while (!sequence_.empty() && step(sequence_.first())) {
    if (sequence_.first().abandoned) pool_.put_back(sequence_.first());
    sequence_.pop();
    sequence_.publish_more();
  }
  look_at_running();
  if (Status starts = contained([&] { return persistent_.go_on(); }); !starts) give_up_starts(std::move(starts));
  persistent_.look();
  sequence_.look();
}

// Takes a step, and returns whether the call needs to be first no more.
bool RequestDriver::step(Request& call) {
  if (call.state == GC_HOST_TURN) return false;
  auto past = contained([&] { return try_step(call); });
  if (past) return *past;
  if (call.is_idle() && matcher_.failures().any_ending() && !gc_mutant(105))
    end_quietly(call, std::move(past).status());
  else
    give_up(call, std::move(past).status());
  return true;
}

Result<bool> RequestDriver::try_step(Request& call) {
  switch (call.stage) {
    case Request::Stage::queued:
      if (call.time_to_look_around()) GC_TRY(sequence_.look_after_readers(call));
      return false;
    case Request::Stage::published: return decide(call);
    case Request::Stage::joining: return join(call);
    case Request::Stage::agreed: return run_agreed(call);
    case Request::Stage::in_group: return run_in_group(call);
    case Request::Stage::preparing: return call.is_persistent() ? place(call) : prepare(call);
    case Request::Stage::launching: return launch(call);
    case Request::Stage::running: return true;  // with the one before
    default: return Status::error(Code::internal, "the first of the queue is not in it");
  }
}

// The communicator stays as good as it was.
bool RequestDriver::end_refused(Request& call, Status why) {
  const CallId& place = call.call.place;
  matcher_.decide(place);
  sequence_.window().decided(place.number);
  call.end_with(std::move(why));
  return true;
}

void RequestDriver::give_to_host(Request& call) {
  __atomic_store_n(&call.state, int{GC_HOST_TURN}, __ATOMIC_RELEASE);  // partner: the component's look
}

// Once, after the verdict.
void RequestDriver::weigh(const Request& call, bool on_device) noexcept {
  const uint32_t form = call.is_persistent() ? GC_FORM_PERSISTENT : GC_FORM_NONBLOCKING;
  hints_.weigh(form, call.call.place.function & ~uint32_t{GC_PERSISTENT}, call.call.part, on_device);
}

Result<bool> RequestDriver::decide(Request& call) {
  const CallId& place = call.call.place;
  if (!call.wrong) return end_refused(call, std::move(call.wrong));
  if (!call.on_device) {
    if (place.number) sequence_.window().decided(place.number);
    give_to_host(call);
    return false;
  }
  GC_TRY(matcher_.failures().usable());
  if (!call.own_number) order_.get_ready(call);
  call.wait.runtime = call.runtime->get();
  GC_TRY_AS(const CallMatcher::Verdict verdict, matcher_.look(call.wait));
  if (verdict == CallMatcher::Verdict::waiting) {
    if (call.time_to_look_around()) GC_TRY(matcher_.watch().look_around(call.wait));
    return false;
  }
  if (verdict == CallMatcher::Verdict::host) {
    sequence_.window().let_go(place.number);
    sequence_.window().decided(place.number);
    weigh(call, false);
    if (call.call.part.has_device_memory) call.runtime->staging().tell(name_of(place), Cause::other_rank);
    give_to_host(call);
    return false;
  }
  if (verdict == CallMatcher::Verdict::refused) return end_refused(call, matcher_.refusal_of(call.wait.rank, place));
  if (!order_.find_number(call)) {
    if (call.time_to_look_around()) GC_TRY(matcher_.watch().look_around(call.wait));
    return false;
  }
  weigh(call, true);
  call.stage = Request::Stage::joining;
  call.wait.start = Clock::now();
  call.wait.rank = 0;
  return join(call);
}

// ---- which ones share a launch ----

// While the device has enough to do until then, a small one waits for others to go with it. Nobody waits for ever: what
// runs was decided before.
bool RequestDriver::is_held(const Request& call) {
  constexpr uint64_t kLaunchesAhead = 2, kSmallOnesAhead = 16;
  if (!(call.line.flags & GC_LINE_SMALL) || !params().progress_thread) return false;
  look_at_running();
  return launcher_.launches() >= (launcher_.runs_large() ? kLaunchesAhead : kSmallOnesAhead);
}

Result<bool> RequestDriver::join(Request& call) {
  if (is_held(call)) return false;
  GC_TRY_AS(const bool agreed, sequence_.agree());
  return agreed ? run_agreed(call) : Result<bool>(false);
}

Result<bool> RequestDriver::run_agreed(Request& call) {
  const uint32_t function = call.call.place.function;
  if (Status same = check_same_call(function, call.call.lines, description_.rank, description_.name); !same) {
    call.end_with(std::move(same));  // the communicator stays as good as it was
    return true;
  }
  return run_on_device(call);
}

// ---- on the device ----

Result<bool> RequestDriver::run_in_group(Request& call) {
  GroupRuntime::Outcome outcome;
  do {
    if (groups_.is_ready() && !order_.may_launch(call)) return false;
    GC_TRY_AS(outcome, groups_.step(call.call));
  } while (outcome == GroupRuntime::Outcome::ready);
  if (outcome == GroupRuntime::Outcome::done) call.end_with({});
  if (outcome == GroupRuntime::Outcome::stage) give_to_host(call);
  return outcome == GroupRuntime::Outcome::done;
}

Result<bool> RequestDriver::run_on_device(Request& call) {
  const bool in_group = call.groups->fits(call.call);
  if (in_group && !call.is_persistent()) {
    call.stage = Request::Stage::in_group;
    return run_in_group(call);
  }
  call.in_group = in_group;
  if (!in_group && !call.runtime->fits(call.call, call.groups->why_not())) {
    give_to_host(call);
    return false;
  }
  call.stage = Request::Stage::preparing;
  call.wait.start = Clock::now();
  return call.is_persistent() ? place(call) : prepare(call);
}

Result<bool> RequestDriver::place(Request& call) {
  GC_TRY_AS(const RequestLauncher::Readiness readiness, persistent_.place(call));
  if (readiness == RequestLauncher::Readiness::waiting) {
    if (call.time_to_look_around()) GC_TRY(persistent_.look_around_for_place(call));
    return false;
  }
  if (readiness == RequestLauncher::Readiness::impossible) {
    give_to_host(call);
    return false;
  }
  call.stage = Request::Stage::resting;
  if (call.start_requested) {
    persistent_.start(call);
    order_.expect_number();
    persistent_.publish_starts();
  } else {
    __atomic_store_n(&call.state, int{GC_READY}, __ATOMIC_RELEASE);  // partner: the component's look
  }
  return true;
}

Result<bool> RequestDriver::prepare(Request& call) {
  look_at_running();  // it waits for them
  GC_TRY_AS(const RequestLauncher::Readiness readiness, launcher_.prepare(call));
  if (readiness == RequestLauncher::Readiness::waiting) return false;
  if (readiness == RequestLauncher::Readiness::impossible) {
    give_to_host(call);
    return false;
  }
  call.stage = Request::Stage::launching;
  return launch(call);
}

// Equal on all ranks. What becomes messages does so on all of them, but whether links are missing differs.
Result<bool> RequestDriver::can_go_along(DeviceCall& call) {
  if (!check_same_call(call.place.function, call.lines, description_.rank, description_.name)) return false;
  if (!runtime_.suits(call)) return false;  // it is told once the call is first
  GC_TRY_AS(const bool prepared, runtime_.prepared(call));
  return prepared && call.part.queue.sends.empty() && call.part.queue.recvs.empty();
}

Result<bool> RequestDriver::launch(Request& call) {
  if (!order_.may_launch(call)) return false;
  GC_TRY(sequence_.find_agreed([&](Request& each) { return can_go_along(each.call); }, &together_));
  GC_TRY_AS(const size_t launched, launcher_.launch(together_));
  for (size_t i = 0; i < launched; ++i) together_[i]->stage = Request::Stage::running;
  return launched != 0;
}

void RequestDriver::look_at_running() {
  while (auto ended = launcher_.next_ended()) {
    if (ended->status)
      ended->call->end_with({});
    else
      give_up(*ended->call, std::move(ended->status));
  }
}

// ---- the end of what is under way ----

CallId RequestDriver::first_place() const noexcept {
  if (!sequence_.empty() && sequence_.first().call.place.number) return sequence_.first().call.place;
  return {GC_ORDER_NONBLOCKING, comm_.orders[GC_ORDER_NONBLOCKING].sequence + 1, GC_FUNCTION_none};
}

void RequestDriver::give_up(Request& call, Status status) {
  if (call.stage == Request::Stage::in_group) groups_.fail(status);  // with its reason, before the words below
  persistent_.groups().fail(status);
  matcher_.failures().fail(call.call.place, comm_, status);
  raise_faults(status);
  persistent_.fail(status);
  call.end_with(std::move(status));
}

void RequestDriver::raise_faults(const Status& why) {
  for (MpiRuntime* each : {&runtime_, &persistent_.runtime()})
    if (each->get()) each->get()->raise_fault(why);
  for (GroupRuntime* each : {&groups_, &persistent_.groups()}) each->raise_fault(why);
}

void RequestDriver::give_up_starts(Status status) {
  const bool told = persistent_.groups().fail(status);  // with its reason, before the words below
  if (!told && !status.told() && !persistent_.runtime().get()) log::write(log::Level::error, "%s", status.what());
  matcher_.failures().fail({kStarts, 0, GC_FUNCTION_none}, comm_, status);
  raise_faults(status);
  persistent_.fail(std::move(status));
}

// Ends a call that other ranks prevent by ending MPI: no error, unless it is started.
void RequestDriver::end_quietly(Request& call, Status status) {
  persistent_.let_go(call);
  matcher_.failures().fail_quietly(first_place(), comm_, status);
  call.end_idle(std::move(status));
}

void RequestDriver::abandon() {
  if (sequence_.is_awaited() || persistent_.any_started())
    matcher_.failures().fail(first_place(), comm_, aborted());
  else if (!sequence_.empty())
    matcher_.failures().fail_quietly(first_place(), comm_, ended());  // they may be connecting to this rank
}

void RequestDriver::stop() {
  launcher_.stop();
  if (sequence_.is_awaited() && runtime_.get())
    runtime_.get()->raise_fault(aborted());  // the others may run what is launched nowhere else
  while (Request* call = launcher_.take_running()) call->end_with(aborted());
  persistent_.stop(aborted());
  sequence_.end_all([](Request& call) {
    if (call.is_idle() && !gc_mutant(104))
      call.end_idle(aborted());
    else if (!call.abandoned)
      call.end_with(aborted());
  });
}

}  // namespace gpucoll::coll
