#include "coll/request/persistent_requests.h"

#include <utility>

namespace gpucoll::coll {
namespace {

using Readiness = RequestLauncher::Readiness;
using Stage = Request::Stage;

constexpr auto kBetweenLooksAround = std::chrono::milliseconds(10);

// But not launched.
bool is_started(const Request* call) {
  return call && (call->stage == Stage::started || call->stage == Stage::launching);
}

}  // namespace

// ---- one call ----

Result<Readiness> PersistentRequests::place(Request& call) {
  GC_TRY(matcher_.failures().usable());
  if (placing_ != &call) {
    placing_ = &call;
    placed_ = Readiness::waiting;
    place_scheduled_ = false;
  }
  GC_TRY(go_on());
  if (placed_ == Readiness::waiting || !schedule_.may_tell(call.steps)) return Readiness::waiting;
  placing_ = nullptr;
  return placed_;
}

// Making connections has waits of its own.
Status PersistentRequests::look_around_for_place(Request& call) {
  if (!steps_.empty()) return {};
  GC_TRY(matcher_.failures().others());
  call.wait.runtime = runtime_.get();
  call.wait.rank = schedule_.keeps_back();
  return matcher_.watch().look_around(call.wait);
}

void PersistentRequests::start(Request& call) {
  Status usable = matcher_.failures().usable();
  if (usable && stopped_) usable = Status::error(Code::aborted, "MPI is being finalized");
  if (!usable) return call.end_with(std::move(usable));
  __atomic_store_n(&call.state, int{GC_WAITS}, __ATOMIC_RELAXED);  // the caller's own look is next
  call.stage = Stage::started;
  call.call.place.order = kStarts;
  call.wait = {call.call.place, nullptr};
  n_started_.fetch_add(1);
  schedule_.start(call.slot);
}

void PersistentRequests::free(Request& call) {
  if (stopped_) {
    launcher_.let_go(call);
    if (call.in_group) groups_.let_go();
  }
  if (call.slot < 0) return;
  in_slot_[static_cast<size_t>(call.slot)] = nullptr;
  schedule_.give_back(call.slot);
  call.slot = -1;
}

void PersistentRequests::let_go(Request& call) {
  if (placing_ != &call) return;
  placing_ = nullptr;
  if (call.in_group)
    groups_.let_go();
  else
    launcher_.let_go(call);
}

// ---- the schedule ----

void PersistentRequests::write_schedule() {
  if (placing_ && !place_scheduled_) place_scheduled_ = schedule_.schedule_place(placing_->call.place.number);
  if (any_started()) schedule_.schedule_starts();
}

void PersistentRequests::look() {
  if (stopped_ || (!placing_ && !any_started())) return;
  while (const auto step = schedule_.next()) steps_.push_back(*step);
}

uint64_t PersistentRequests::first_due() const noexcept {
  for (size_t i = in_group_ && !groups_.is_to_launch(); i < steps_.size(); ++i) {
    const uint64_t step = steps_[i].what;
    const Request* const call = in_slot_[gc_step_slot(step)];
    const bool is_start = gc_step_kind(step) == GC_STEP_START || gc_step_kind(step) == GC_STEP_JOIN;
    if (is_start && !(call && call->in_group && !groups_.leads())) return steps_[i].number;
  }
  return 0;
}

Status PersistentRequests::go_on() {
  if (idle()) return {};
  if (description_.rank == 0 && !stopped_) write_schedule();
  look();
  while (!steps_.empty()) {
    GC_TRY_AS(const size_t over, carry_out());
    if (!over) break;
    steps_.erase(steps_.begin(), steps_.begin() + static_cast<std::ptrdiff_t>(over));
  }
  GC_TRY(look_at_running());
  tell();
  return any_started() ? look_around() : Status();
}

Result<size_t> PersistentRequests::carry_out() {
  const uint32_t kind = gc_step_kind(steps_.front().what);
  if (kind == GC_STEP_START || kind == GC_STEP_JOIN) {
    GC_TRY(find_starts());
    return launch();
  }
  GC_TRY_AS(const bool over, give_place(steps_.front()));
  return size_t{over};
}

// Only once the queue of nonblocking ones has come to it.
Result<bool> PersistentRequests::give_place(const PersistentSchedule::Step& scheduled) {
  const uint64_t step = scheduled.what;
  if (!placing_ || placing_->call.place.number != gc_step_number(step)) return false;
  placed_ = Readiness::impossible;
  if (gc_step_kind(step) == GC_STEP_PLACE) {
    GC_TRY_AS(placed_, placing_->in_group ? dry_run(*placing_) : launcher_.prepare(*placing_));
  } else {
    runtime_.staging().tell(name_of(placing_->call.place), Cause::persistent_places);
  }
  if (placed_ == Readiness::waiting) return false;
  placing_->steps = present_step();
  if (placed_ == Readiness::impossible) return true;
  placing_->slot = static_cast<int>(gc_step_slot(step));
  in_slot_[gc_step_slot(step)] = placing_;
  schedule_.hold(placing_->slot, placing_->is_small() && !placing_->in_group);
  return true;
}

// All of them have been read if the first has (persistent_schedule.cpp).
Status PersistentRequests::find_starts() {
  starts_.clear();
  for (const auto& [step, number] : steps_) {
    if (!starts_.empty() && gc_step_kind(step) != GC_STEP_JOIN) break;
    Request* const call = in_slot_[gc_step_slot(step)];
    if (!is_started(call))
      return Status::error(Code::internal,
                           "rank 0 has scheduled a persistent collective that this rank has not started");
    starts_.push_back(call);
  }
  return {};
}

Result<size_t> PersistentRequests::launch() {
  Request& first = *starts_.front();
  if (first.in_group) return run_in_group(first);
  if (first.stage == Stage::started) {
    // Nothing is missing, unless the runtime communicator does things in another way since it has its place.
    GC_TRY_AS(const Readiness readiness, launcher_.prepare(first));
    if (readiness == Readiness::waiting) return size_t{0};
    if (readiness == Readiness::impossible) return Status::error(Code::remote, "the ranks can no longer be connected");
    first.stage = Stage::launching;
  }
  if (!may_launch_(steps_.front().number)) return size_t{0};
  GC_TRY_AS(const size_t n, launcher_.launch(starts_));
  for (size_t i = 0; i < n; ++i) {
    starts_[i]->stage = Stage::running;
    starts_[i]->steps = present_step() + i;
    n_started_.fetch_sub(1);
  }
  return n;
}

// ---- where ranks share a device ----

Result<Readiness> PersistentRequests::dry_run(Request& call) {
  GC_TRY_AS(const GroupRuntime::Outcome outcome, groups_.dry_run(call.call));
  if (outcome == GroupRuntime::Outcome::waiting) return Readiness::waiting;
  return outcome == GroupRuntime::Outcome::done ? Readiness::ready : Readiness::impossible;
}

Result<size_t> PersistentRequests::run_in_group(Request& call) {
  GroupRuntime::Outcome outcome;
  call.stage = Stage::launching;
  in_group_ = &call;
  do {
    if (groups_.is_ready() && !may_launch_(steps_.front().number)) return size_t{0};
    GC_TRY_AS(outcome, groups_.step(call.call));
  } while (outcome == GroupRuntime::Outcome::ready);
  if (outcome == GroupRuntime::Outcome::waiting) return size_t{0};
  if (outcome == GroupRuntime::Outcome::stage)
    return Status::error(Code::remote, "the ranks can no longer be connected");
  in_group_ = nullptr;
  call.stage = Stage::running;
  call.steps = present_step();
  n_started_.fetch_sub(1);
  unreported_.push_back(&call);
  return size_t{1};
}

// ---- ends ----

Status PersistentRequests::look_at_running() {
  Status all;
  while (auto ended = launcher_.next_ended()) {
    if (ended->status) {
      unreported_.push_back(ended->call);
      continue;
    }
    ended->call->end_with(ended->status);
    all = std::move(ended->status);
    all.mark_told();
  }
  return all;
}

void PersistentRequests::tell() {
  while (!unreported_.empty() && (stopped_ || schedule_.may_tell(unreported_.front()->steps))) {
    unreported_.front()->end_with({});
    unreported_.pop_front();
  }
}

// Leaves out calls behind a start that the groups run: the groups look after each other, and such a call has not begun
// to wait.
Status PersistentRequests::look_around() {
  const auto now = Clock::now();
  if (now < next_look_around_) return {};
  next_look_around_ = now + kBetweenLooksAround;
  GC_TRY(matcher_.failures().others(true));  // what all have started does not need them to make more
  for (Request* call : in_slot_) {
    if (!is_started(call)) continue;
    if (in_group_) call->wait.start = now;
    if (in_group_) continue;
    call->wait.runtime = runtime_.get();
    call->wait.rank = schedule_.missing(call->slot);
    GC_TRY(matcher_.watch().look_around(call->wait));
  }
  return {};
}

void PersistentRequests::end_started(const Status& status) {
  placing_ = nullptr;
  steps_.clear();
  for (Request* call : in_slot_)
    if (is_started(call)) call->end_with(status);
  n_started_.store(0);
}

void PersistentRequests::fail(Status status) {
  if (std::exchange(stopped_, true)) return;
  in_group_ = nullptr;
  if (runtime_.get()) runtime_.get()->raise_fault(status);  // the others count on this rank
  status.mark_told();
  end_started(status);
}

void PersistentRequests::stop(const Status& status) {
  launcher_.stop();
  groups_.stop();
  if (any_started() && runtime_.get()) runtime_.get()->raise_fault(status);
  stopped_ = true;
  while (Request* call = launcher_.take_running()) call->end_with(status);
  end_started(status);
  tell();
}

void PersistentRequests::finish(core::Closing& closing) {
  groups_.finish(closing);
  runtime_.finish(closing);
}

}  // namespace gpucoll::coll
