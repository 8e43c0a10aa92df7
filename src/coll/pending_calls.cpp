#include "coll/pending_calls.h"

#include <sched.h>

#include <utility>

#include "coll/call_line.h"
#include "coll/turner.h"

namespace gpucoll::coll {
namespace {

// How long start() looks for the other ranks: those that come together launch in it.
constexpr auto kFirstPatience = std::chrono::microseconds(5);
constexpr auto kBetweenLooksAround = std::chrono::milliseconds(10);

}  // namespace

void PendingCalls::stop() {
  Turner::instance().remove(this);
  std::lock_guard lock(mutex_);
  runner_.stop();
  const Status aborted = Status::error(Code::aborted, "MPI is being finalized while it is under way");
  while (PendingCall* call = runner_.take_running()) call->end_with(aborted);
  persistent_.stop(aborted);
  for (PendingCall* call : std::exchange(queue_, {})) call->end_with(aborted);
  n_published_ = 0;
  n_queued_.store(0);
}

void PendingCalls::release() {
  std::lock_guard lock(mutex_);
  for (const auto& call : all_) call->call.scratch.release();
}

// ---- beginning and ending ----

PendingCall* PendingCalls::take_spare() {
  if (spare_.empty()) {
    all_.push_back(std::make_unique<PendingCall>(*this));
    spare_.reserve(all_.size());
    return all_.back().get();
  }
  PendingCall* call = spare_.back();
  spare_.pop_back();
  return call;
}

void PendingCalls::recycle(PendingCall* call) {
  call->call.part.clear();
  spare_.push_back(call);
}

// Whether a call with host memory has nothing to wait for.
bool PendingCalls::passes_by(uint32_t function) {
  if (!queue_.empty()) return false;
  if (function != GC_FUNCTION_none) {
    if (!lines_.is_free(comm_.orders[GC_ORDER_NONBLOCKING].sequence + 1)) return false;
    gc_publish_host(&comm_, GC_ORDER_NONBLOCKING, function);
  }
  if (lines_.all_free()) __atomic_store_n(&comm_.busy, 0, __ATOMIC_RELAXED);
  return true;
}

void PendingCalls::enqueue(PendingCall* call, uint32_t function, const gc_call* device_call) {
  const bool counted = function != GC_FUNCTION_none;
  const uint64_t number = counted ? ++comm_.orders[GC_ORDER_NONBLOCKING].sequence : 0;
  call->state = GC_WAITS;
  call->stage = PendingCall::Stage::queued;
  call->code = Code::ok;
  call->wanted = false;
  call->call.place = {GC_ORDER_NONBLOCKING, number, function};
  call->wait = {call->call.place, nullptr};
  call->next_look_around = call->wait.start + kBetweenLooksAround;
  call->on_device = device_call && runtime_of(*call).plan(*device_call, &call->call);
  if (call->on_device)
    call->line = line_of(*device_call, description_.rank, description_.size, *call->call.part.device);
  __atomic_store_n(&comm_.busy, 1, __ATOMIC_RELAXED);
  queue_.push_back(call);
  n_queued_.store(queue_.size());
}

Result<PendingCall*> PendingCalls::start(uint32_t function, const gc_call* device_call) {
  PendingCall* call;
  {
    std::lock_guard lock(mutex_);
    if (!device_call && passes_by(function)) return nullptr;
    call = take_spare();
    enqueue(call, function, device_call);
    go_on();
    if (!call->is_persistent()) go_on_a_little_while([&] { return is_undecided(*call); });
  }
  leave_to_thread();
  return call;
}

void PendingCalls::leave_to_thread() {
  if (waits() && !on_thread_.exchange(true)) Turner::instance().add(this);
}

// Whether it is the first of the queue and waits for other ranks.
bool PendingCalls::is_undecided(const PendingCall& call) const {
  return !queue_.empty() && queue_.front() == &call && call.stage == PendingCall::Stage::published &&
         call.state == GC_WAITS;
}

template <class Condition>
void PendingCalls::go_on_a_little_while(const Condition& condition) {
  const auto end = Clock::now() + kFirstPatience;
  while (condition() && Clock::now() < end) go_on();
}

void PendingCalls::turn() {
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return;
  go_on();
  const bool polite = !runner_.settled() && runtime_.get()->emulated();
  lock.unlock();
  if (polite) sched_yield();  // MPI, which waits without, keeps the processors that the device's threads need
}

// Who queues a call after the last look here finds that the thread does not have it any more.
bool PendingCalls::turn_on_thread() {
  turn();
  if (waits()) return true;
  on_thread_.store(false);
  return waits() && !on_thread_.exchange(true);
}

bool PendingCalls::settled() {
  std::lock_guard lock(mutex_);
  return runner_.settled();
}

void PendingCalls::host_begun(PendingCall* call) {
  std::lock_guard lock(mutex_);
  pop_first();
  recycle(call);
  go_on();
}

Code PendingCalls::end(PendingCall* call) {
  std::lock_guard lock(mutex_);
  const Code code = call->code;
  if (call->is_persistent())
    __atomic_store_n(&call->state, int{GC_READY}, __ATOMIC_RELAXED);  // the caller's own look is next
  else
    recycle(call);
  return code;
}

// Before it has a place, it is only noted.
void PendingCalls::restart(PendingCall* call) {
  std::lock_guard lock(mutex_);
  call->wanted = true;
  if (call->stage == PendingCall::Stage::failed) return call->end();
  if (call->stage == PendingCall::Stage::resting) persistent_.start(*call);
}

void PendingCalls::publish_starts() {
  {
    std::lock_guard lock(mutex_);
    persistent_.publish_starts();
    go_on();
    go_on_a_little_while([&] { return persistent_.any_started(); });
  }
  leave_to_thread();
}

void PendingCalls::free(PendingCall* call) {
  std::lock_guard lock(mutex_);
  persistent_.free(*call);
  recycle(call);
}

void PendingCalls::give_up(PendingCall& call, Status status) {
  arrivals_.fail(call.call.place, comm_);
  if (runtime_.get()) runtime_.get()->raise_fault(status);  // the others count on this rank
  persistent_.fail(status);
  call.end_with(std::move(status));
}

void PendingCalls::give_up_starts(Status status) {
  arrivals_.fail({kStarts, 0, GC_FUNCTION_none}, comm_);
  persistent_.fail(std::move(status));
}

// ---- the board ----

// Of the first in the queue, which others keep from being published: what has been launched goes on, but they may have
// died.
Status PendingCalls::await_line(PendingCall& call) {
  const KeptLines::Reader reader = lines_.reader_of(call.call.place.number);
  call.wait.place = {GC_ORDER_NONBLOCKING, reader.number, call.call.place.function};
  call.wait.rank = reader.rank;
  return call.wait.rank < 0 ? Status() : arrivals_.look_around(call.wait);
}

void PendingCalls::publish(PendingCall& call) {
  const Place& place = call.call.place;
  call.stage = PendingCall::Stage::published;
  call.wait = {place, nullptr};
  if (place.number == 0) return;
  if (call.on_device) lines_.keep(place.number);
  arrivals_.publish(place, call.on_device ? GC_KIND_DEVICE : GC_KIND_HOST, call.line);
}

void PendingCalls::publish_more() {
  for (; n_published_ < queue_.size(); ++n_published_) {
    PendingCall& call = *queue_[n_published_];
    if (call.call.place.number && !lines_.is_free(call.call.place.number)) return;
    publish(call);
  }
}

// ---- the first of the queue ----

// The next one waits from now on.
void PendingCalls::pop_first() {
  queue_.pop_front();
  if (n_published_) --n_published_;
  n_queued_.store(queue_.size());
  if (!queue_.empty()) queue_.front()->wait.start = Clock::now();
}

void PendingCalls::go_on() {
  publish_more();
  while (!queue_.empty() && step(*queue_.front())) {
    pop_first();
    publish_more();
  }
  look_at_running();
  if (Status starts = contained([&] { return persistent_.go_on(); }); !starts) give_up_starts(std::move(starts));
}

// Whether it needs to be first no more.
bool PendingCalls::step(PendingCall& call) {
  if (call.state == GC_HOST_TURN) return false;
  auto past = contained([&] { return try_step(call); });
  if (past) return *past;
  give_up(call, std::move(past).status());
  return true;
}

Result<bool> PendingCalls::try_step(PendingCall& call) {
  switch (call.stage) {
    case PendingCall::Stage::queued:
      if (time_to_look_around(call)) GC_TRY(await_line(call));
      return false;
    case PendingCall::Stage::published: return decide(call);
    case PendingCall::Stage::preparing: return call.is_persistent() ? place(call) : prepare(call);
    case PendingCall::Stage::launching: return launch(call);
    default: return Status::error(Code::internal, "the first of the queue is not in it");
  }
}

bool PendingCalls::time_to_look_around(PendingCall& call) const {
  const auto now = Clock::now();
  if (now < call.next_look_around) return false;
  call.next_look_around = now + kBetweenLooksAround;
  return true;
}

void PendingCalls::give_to_host(PendingCall& call) {
  __atomic_store_n(&call.state, int{GC_HOST_TURN}, __ATOMIC_RELEASE);  // partner: the skin's look
}

Result<bool> PendingCalls::decide(PendingCall& call) {
  const Place& place = call.call.place;
  if (!call.on_device) {
    if (place.number) lines_.decided(place.number);
    give_to_host(call);
    return false;
  }
  GC_TRY(arrivals_.usable());
  call.wait.runtime = runtime_of(call).get();
  GC_TRY_AS(const Arrivals::Verdict verdict, arrivals_.look(call.wait));
  if (verdict == Arrivals::Verdict::waiting) {
    if (time_to_look_around(call)) GC_TRY(arrivals_.look_around(call.wait));
    return false;
  }
  if (verdict == Arrivals::Verdict::host) {
    lines_.let_go(place.number);
    lines_.decided(place.number);
    give_to_host(call);
    return false;
  }
  arrivals_.read_lines(place, &call.call.lines);
  arrivals_.decide(place);
  lines_.decided(place.number);
  if (Status same = check_same_call(call.call.lines, description_.rank, description_.name); !same) {
    call.end_with(std::move(same));  // the communicator stays as good as it was
    return true;
  }
  return run_on_device(call);
}

// ---- on the device ----

Result<bool> PendingCalls::run_on_device(PendingCall& call) {
  if (!runtime_of(call).fits(call.call)) {
    give_to_host(call);
    return false;
  }
  call.stage = PendingCall::Stage::preparing;
  call.wait.start = Clock::now();
  return call.is_persistent() ? place(call) : prepare(call);
}

Result<bool> PendingCalls::place(PendingCall& call) {
  GC_TRY_AS(const CallRunner::Readiness readiness, persistent_.place(call));
  if (readiness == CallRunner::Readiness::waiting) {
    if (time_to_look_around(call)) GC_TRY(persistent_.look_around_for_place(call));
    return false;
  }
  if (readiness == CallRunner::Readiness::impossible) {
    give_to_host(call);
    return false;
  }
  call.stage = PendingCall::Stage::resting;
  if (call.wanted) {
    persistent_.start(call);
    persistent_.publish_starts();
  } else {
    __atomic_store_n(&call.state, int{GC_READY}, __ATOMIC_RELEASE);  // partner: the skin's look
  }
  return true;
}

Result<bool> PendingCalls::prepare(PendingCall& call) {
  look_at_running();  // it waits for them
  GC_TRY_AS(const CallRunner::Readiness readiness, runner_.prepare(call));
  if (readiness == CallRunner::Readiness::waiting) return false;
  if (readiness == CallRunner::Readiness::impossible) {
    give_to_host(call);
    return false;
  }
  call.stage = PendingCall::Stage::launching;
  return launch(call);
}

Result<bool> PendingCalls::launch(PendingCall& call) {
  PendingCall* const alone[] = {&call};
  GC_TRY_AS(const size_t launched, runner_.launch(alone));
  if (launched) call.stage = PendingCall::Stage::running;
  return launched != 0;
}

void PendingCalls::look_at_running() {
  while (auto ended = runner_.next_ended()) {
    if (ended->status)
      ended->call->end_with({});
    else
      give_up(*ended->call, std::move(ended->status));
  }
}

}  // namespace gpucoll::coll
