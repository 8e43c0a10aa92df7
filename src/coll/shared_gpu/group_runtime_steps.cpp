// Takes a nonblocking collective, or a start of a persistent one, through its steps until the leaders of groups have
// run it. The steps never wait: a thread of its own waits for other ranks.
#include "coll/shared_gpu/group_runtime.h"

namespace gpucoll::coll {

Status GroupRuntime::begin_step(DeviceCall& call) {
  begin_call();
  own_.forget();  // of a blocking one that went through the host
  if (calls_ == 1) {
    // Not on the background task: those that are started meanwhile are looked at in the same way.
    background_.start([this, &call, handed_over = submit(call)] { return meet(call, handed_over, nullptr); });
    step_ = Step::meeting;
    return {};
  }
  GC_TRY(submit(call));
  step_ = leads() ? Step::collecting : Step::following;
  return {};
}

Result<GroupRuntime::Outcome> GroupRuntime::end_step(bool done) {
  if (leads()) leader_.answer(done);
  staging_ = !done;
  step_ = Step::idle;
  return done ? Outcome::done : Outcome::stage;
}

// ---- each step: `waiting` as long as it is not the call's end ----

Result<GroupRuntime::Outcome> GroupRuntime::go_on_meeting() {
  auto back = background_.take_result();
  if (!back) return Outcome::waiting;
  GC_TRY_AS(const bool able, std::move(*back));
  if (!able) leader_.need_not_answer();  // all know
  staging_ = !able;
  step_ = !able ? Step::idle : leads() ? Step::collecting : Step::following;
  return able ? Outcome::waiting : Outcome::stage;
}

Result<GroupRuntime::Outcome> GroupRuntime::go_on_collecting(const DeviceCall& call) {
  GC_TRY_AS(const int missing, leader_.collect(call));
  if (missing >= 0) {
    const auto handed = [&] { return pages().handed(missing, calls_); };
    GC_TRY(wait_.look_now_and_then(missing, kHandedOver, call.place, handed));
    return Outcome::waiting;
  }
  GC_TRY(leader_.put_together(call, !dry_runs_));
  GC_TRY_AS(const bool prepared, leader_.prepared());
  if (prepared) return be_ready();
  background_.start([this] { return leader_.prepare(nullptr); });
  step_ = Step::preparing;
  return Outcome::waiting;
}

Result<GroupRuntime::Outcome> GroupRuntime::go_on_preparing() {
  auto back = background_.take_result();
  if (!back) return Outcome::waiting;
  GC_TRY_AS(const bool ready, std::move(*back));
  return ready ? be_ready() : end_step(false);
}

Result<GroupRuntime::Outcome> GroupRuntime::be_ready() {
  if (dry_runs_) return end_step(true);
  step_ = Step::ready;
  return Outcome::ready;
}

Result<GroupRuntime::Outcome> GroupRuntime::begin_launching() {
  GC_TRY(leader_.begin_launch());
  step_ = Step::launching;
  return Outcome::waiting;
}

Result<GroupRuntime::Outcome> GroupRuntime::go_on_launching() {
  GC_TRY_AS(const bool all, leader_.launch());
  if (all) step_ = Step::running;
  return Outcome::waiting;
}

Result<GroupRuntime::Outcome> GroupRuntime::go_on_running() {
  GC_TRY_AS(const bool done, leader_.has_run());
  return done ? end_step(true) : Outcome::waiting;
}

Result<GroupRuntime::Outcome> GroupRuntime::go_on_following(const DeviceCall& call) {
  const auto answered = [&] { return pages().answered(leader(), calls_); };
  if (!answered()) {
    GC_TRY(wait_.look_now_and_then(leader(), kHadRun, call.place, answered));
    return Outcome::waiting;
  }
  GC_TRY_AS(const Outcome ended, outcome(call));
  return end_step(ended == Outcome::done);
}

Result<GroupRuntime::Outcome> GroupRuntime::take_step(DeviceCall& call) {
  switch (step_) {
    case Step::idle: GC_TRY(begin_step(call)); return Outcome::waiting;
    case Step::meeting: return go_on_meeting();
    case Step::collecting: return go_on_collecting(call);
    case Step::preparing: return go_on_preparing();
    case Step::ready: return begin_launching();
    case Step::launching: return go_on_launching();
    case Step::running: return go_on_running();
    case Step::following: return go_on_following(call);
  }
  return Status::error(Code::internal, "no such step");
}

Result<GroupRuntime::Outcome> GroupRuntime::go_on(DeviceCall& call, bool dry_runs) {
  dry_runs_ = dry_runs;
  for (;;) {
    const Step before = step_;
    auto outcome = take_step(call);
    if (!outcome) {
      step_ = Step::idle;
      const bool by_leaders = before >= Step::preparing && before <= Step::running;
      return by_leaders ? leader_.explained(outcome.status()) : outcome.status();
    }
    if (*outcome != Outcome::waiting || step_ == before) return outcome;
  }
}

}  // namespace gpucoll::coll
