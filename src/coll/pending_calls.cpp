#include "coll/pending_calls.h"

#include <sched.h>

#include <algorithm>
#include <utility>

#include "base/params.h"
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
  call->line = {};
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

// Of the one at `at` in the queue, which is about to be published.
uint32_t PendingCalls::flags_of(size_t at) const {
  const PendingCall& call = *queue_[at];
  const core::TaskQueue& tasks = call.call.part.queue;
  if (call.is_persistent() || !call.on_device || !call.is_small()) return 0;
  // Links for messages are a matter of two ranks: others do not know whether they are missing.
  if (!tasks.sends.empty() || !tasks.recvs.empty()) return 0;
  if (at == 0) return GC_LINE_SMALL;
  const PendingCall& before = *queue_[at - 1];
  const bool undecided = before.state == GC_WAITS &&
                         (before.stage == PendingCall::Stage::published || before.stage == PendingCall::Stage::joining);
  const bool next = before.call.place.number + 1 == call.call.place.number;
  return undecided && next ? GC_LINE_SMALL | GC_LINE_WAITS : GC_LINE_SMALL;
}

void PendingCalls::publish(PendingCall& call, uint32_t flags) {
  const Place& place = call.call.place;
  call.line.flags |= flags;
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
    publish(call, flags_of(n_published_));
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
    case PendingCall::Stage::joining: return join(call);
    case PendingCall::Stage::agreed: return run_agreed(call);
    case PendingCall::Stage::preparing: return call.is_persistent() ? place(call) : prepare(call);
    case PendingCall::Stage::launching: return launch(call);
    case PendingCall::Stage::running: return true;  // with the one before
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
  call.stage = PendingCall::Stage::joining;
  call.wait.start = Clock::now();
  call.wait.rank = 0;
  return join(call);
}

// ---- which ones share a launch ----

// While the device has enough to do until then, a small one waits for others to go with it. Nobody waits for ever: what
// runs was decided before.
bool PendingCalls::is_held(const PendingCall& call) {
  constexpr uint64_t kLaunchesAhead = 2, kSmallOnesAhead = 16;
  if (!(call.line.flags & GC_LINE_SMALL) || !params().progress_thread) return false;
  look_at_running();
  return runner_.launches() >= (runner_.runs_large() ? kLaunchesAhead : kSmallOnesAhead);
}

// Whether this rank has it wait behind the one before, to go with it.
bool PendingCalls::joins(size_t at) const {
  constexpr uint32_t kBoth = GC_LINE_SMALL | GC_LINE_WAITS;
  return at < n_published_ && (queue_[at]->line.flags & kBoth) == kBoth && queue_[at - 1]->line.flags & GC_LINE_SMALL;
}

// The same of all ranks, and that they have come with device memory.
bool PendingCalls::joins_everywhere(size_t at) {
  PendingCall& call = *queue_[at];
  const auto verdict = arrivals_.look(call.wait);
  if (!verdict || *verdict != Arrivals::Verdict::device) return false;
  arrivals_.read_lines(call.call.place, &call.call.lines);
  const uint32_t wanted = at ? GC_LINE_SMALL | GC_LINE_WAITS : GC_LINE_SMALL;
  return std::all_of(call.call.lines.begin(), call.call.lines.end(),
                     [&](const gc_board_line& line) { return (line.flags & wanted) == wanted; });
}

// From the first of the queue on; 0: rank 0 has not told yet.
Result<size_t> PendingCalls::count_together() {
  const Place& place = queue_.front()->call.place;
  if (description_.rank != 0) return joins(1) ? arrivals_.together(place) : Result<size_t>(1);
  size_t n = 1;
  if (joins(1) && joins_everywhere(0))
    while (joins(n) && joins_everywhere(n)) ++n;
  arrivals_.tell_together(place, n);
  return n;
}

Result<bool> PendingCalls::join(PendingCall& call) {
  if (is_held(call)) return false;
  GC_TRY_AS(const size_t n, count_together());
  if (n == 0) {
    if (time_to_look_around(call)) GC_TRY(arrivals_.look_around(call.wait));
    return false;
  }
  if (n > n_published_) return Status::error(Code::internal, "rank 0 joins what this rank has not entered");
  for (size_t i = 0; i < n; ++i) {
    arrivals_.read_lines(queue_[i]->call.place, &queue_[i]->call.lines);
    queue_[i]->stage = PendingCall::Stage::agreed;
  }
  const Place& last = queue_[n - 1]->call.place;
  arrivals_.decide(last);
  lines_.decided(last.number);
  return run_agreed(call);
}

Result<bool> PendingCalls::run_agreed(PendingCall& call) {
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

// Equal on all ranks. What becomes messages does so on all of them, but whether links are missing differs.
Result<bool> PendingCalls::can_go_along(DeviceCall& call) {
  if (!check_same_call(call.lines, description_.rank, description_.name) || !runtime_.fits(call)) return false;
  GC_TRY_AS(const bool prepared, runtime_.prepared(call));
  return prepared && call.part.queue.sends.empty() && call.part.queue.recvs.empty();
}

Result<bool> PendingCalls::launch(PendingCall& call) {
  together_.assign(1, &call);
  for (size_t i = 1; i < queue_.size() && queue_[i]->stage == PendingCall::Stage::agreed; ++i) {
    GC_TRY_AS(const bool goes_along, can_go_along(queue_[i]->call));
    if (!goes_along) break;
    together_.push_back(queue_[i]);
  }
  GC_TRY_AS(const size_t launched, runner_.launch(together_));
  for (size_t i = 0; i < launched; ++i) together_[i]->stage = PendingCall::Stage::running;
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
