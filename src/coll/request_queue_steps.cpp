// Takes the first calls of the queue through their steps until they run: they are decided, share a launch, and are
// launched.
#include <algorithm>

#include "base/mutant.h"
#include "base/params.h"
#include "coll/match/board_line.h"
#include "coll/request_queue.h"

namespace gpucoll::coll {
namespace {

// As kPatience of the ProgressThread, where the application has to begin a call on the host first: it may compute for
// as long as it likes.
constexpr auto kPatienceWithHost = std::chrono::milliseconds(10);

}  // namespace

// ---- the first of the queue ----

RequestQueue::Clock::duration RequestQueue::patience() const noexcept {
  const bool with_host = !queue_.empty() && queue_.front()->state == GC_HOST_TURN;
  return with_host ? Clock::duration(kPatienceWithHost) : ProgressThread::kPatience;
}

// Returns when this rank entered the first call that may be due without being known to be, or an earlier time; 0: none
// is.
uint64_t RequestQueue::first_undecided() const noexcept {
  if (persistent_.any_started() && !due_start_) return 1;
  return n_published_ && !due_ ? queue_.front()->entered_ns : 0;
}

void RequestQueue::note_first() {
  n_queued_.store(queue_.size());
  if (description_.size == 1) return;  // what waits for no other rank stands in nobody's way
  const auto now = Clock::now();
  const Request* const due = find_due();
  if (std::exchange(due_, due) != due) due_since_ = now;
  const uint64_t start = persistent_.first_due();
  if (std::exchange(due_start_, start) != start) start_due_since_ = now;
  uint64_t first = due && now - due_since_ <= patience() ? due->complete : 0;
  if (start && now - start_due_since_ <= ProgressThread::kPatience && (!first || start < first)) first = start;
  first_due_.store(first);
  first_entered_.store(first_undecided());
}

bool RequestQueue::is_due(const Request& call) const {
  switch (call.state == GC_HOST_TURN ? Request::Stage::queued : call.stage) {
    case Request::Stage::joining:
    case Request::Stage::agreed:
    case Request::Stage::preparing:
    case Request::Stage::launching: return !call.is_persistent();
    case Request::Stage::in_group: return groups_.is_to_launch();
    default: return false;
  }
}

// Returns whether all ranks have come to the call with device memory. Notes since when, if that can be told yet.
bool RequestQueue::find_complete(Request& call) {
  if (call.complete || !call.on_device || call.is_persistent() || !call.wrong) return call.complete;
  const auto verdict = matcher_.look(call.wait);
  if (!verdict || *verdict != CallMatcher::Verdict::device) return false;
  call.complete = matcher_.complete_since(call.call.place, &call.wait.rank);
  unstamped_ |= !call.complete;
  return true;
}

// Returns the call that this rank is to launch first, where all ranks have come to it: the first of the queue, or one
// behind where the first is launched but stays in a group, or waits for the application to begin it on the host.
Request* RequestQueue::find_due() {
  if (queue_.empty()) return nullptr;
  Request& first = *queue_.front();
  if (is_due(first)) return &first;
  if (is_undecided(first) && find_complete(first)) return first.complete ? &first : nullptr;
  if (!runs_here() || waits_for_others(first)) return nullptr;
  for (size_t i = 1; i < n_published_; ++i) {
    Request& next = *queue_[i];
    if (!next.on_device || next.is_persistent()) continue;
    if (!next.complete) {
      const auto verdict = matcher_.look(next.wait);
      if (verdict && (*verdict == CallMatcher::Verdict::host || *verdict == CallMatcher::Verdict::refused)) continue;
      if (!verdict || *verdict == CallMatcher::Verdict::waiting || !next.wrong) return nullptr;
      find_complete(next);
    }
    return next.complete ? &next : nullptr;
  }
  return nullptr;
}

// Returns whether all calls that all ranks came to before are launched (progress_thread.h), also those of this
// communicator, which the ProgressThread takes for one.
bool RequestQueue::may_launch(Request& call) {
  if (description_.size == 1) return true;
  const bool told = persistent_.look();
  note_first();
  const auto now = Clock::now();
  if (now - due_since_ > ProgressThread::kPatience) return true;
  if (!told || (due_start_ && due_start_ < call.complete && now - start_due_since_ <= ProgressThread::kPatience))
    return false;
  return ProgressThread::instance().launch_earlier(call.complete, this);
}

bool RequestQueue::may_start(uint64_t scheduled) {
  if (description_.size == 1) return true;
  note_first();
  const auto now = Clock::now();
  if (now - start_due_since_ > ProgressThread::kPatience) return true;
  if (unstamped_ || (due_ && due_->complete < scheduled && now - due_since_ <= patience())) return false;
  return ProgressThread::instance().launch_earlier(scheduled, this);
}

// The next one waits from now on.
void RequestQueue::pop_first() {
  if (queue_.front()->abandoned) recycle(queue_.front());
  queue_.pop_front();
  if (n_published_) --n_published_;
  note_first();
  if (!queue_.empty()) queue_.front()->wait.start = Clock::now();
}

void RequestQueue::go_on() {
  unstamped_ = false;
  publish_more();
  while (!queue_.empty() && step(*queue_.front())) {
    pop_first();
    publish_more();
  }
  look_at_running();
  if (Status starts = contained([&] { return persistent_.go_on(); }); !starts) give_up_starts(std::move(starts));
  unstamped_ |= !persistent_.look();
  note_first();
}

// Takes a step, and returns whether the call needs to be first no more.
bool RequestQueue::step(Request& call) {
  if (call.state == GC_HOST_TURN) return false;
  auto past = contained([&] { return try_step(call); });
  if (past) return *past;
  if (call.is_idle() && matcher_.any_ending() && !gc_mutant(105))
    end_quietly(call, std::move(past).status());
  else
    give_up(call, std::move(past).status());
  return true;
}

Result<bool> RequestQueue::try_step(Request& call) {
  switch (call.stage) {
    case Request::Stage::queued:
      if (time_to_look_around(call)) GC_TRY(await_line(call));
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

bool RequestQueue::time_to_look_around(Request& call) const {
  const auto now = Clock::now();
  if (now < call.next_look_around) return false;
  call.next_look_around = now + kBetweenLooksAround;
  return true;
}

// The communicator stays as good as it was.
bool RequestQueue::end_refused(Request& call, Status why) {
  const CallId& place = call.call.place;
  matcher_.decide(place);
  window_.decided(place.number);
  call.end_with(std::move(why));
  return true;
}

void RequestQueue::give_to_host(Request& call) {
  __atomic_store_n(&call.state, int{GC_HOST_TURN}, __ATOMIC_RELEASE);  // partner: the component's look
}

// Once, after the verdict.
void RequestQueue::weigh(const Request& call, bool on_device) noexcept {
  const uint32_t form = call.is_persistent() ? GC_FORM_PERSISTENT : GC_FORM_NONBLOCKING;
  hints_.weigh(form, call.call.place.function & ~uint32_t{GC_PERSISTENT}, call.call.part, on_device);
}

Result<bool> RequestQueue::decide(Request& call) {
  const CallId& place = call.call.place;
  if (!call.wrong) return end_refused(call, std::move(call.wrong));
  if (!call.on_device) {
    if (place.number) window_.decided(place.number);
    give_to_host(call);
    return false;
  }
  GC_TRY(matcher_.usable());
  call.wait.runtime = runtime_of(call).get();
  GC_TRY_AS(const CallMatcher::Verdict verdict, matcher_.look(call.wait));
  if (verdict == CallMatcher::Verdict::waiting) {
    if (time_to_look_around(call)) GC_TRY(matcher_.look_around(call.wait));
    return false;
  }
  if (verdict == CallMatcher::Verdict::host) {
    window_.let_go(place.number);
    window_.decided(place.number);
    weigh(call, false);
    give_to_host(call);
    return false;
  }
  if (verdict == CallMatcher::Verdict::refused) return end_refused(call, matcher_.refusal_of(call.wait.rank, place));
  call.complete = matcher_.complete_since(place, &call.wait.rank);
  unstamped_ |= !call.complete;
  if (!call.complete) {
    if (time_to_look_around(call)) GC_TRY(matcher_.look_around(call.wait));
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
bool RequestQueue::is_held(const Request& call) {
  constexpr uint64_t kLaunchesAhead = 2, kSmallOnesAhead = 16;
  if (!(call.line.flags & GC_LINE_SMALL) || !params().progress_thread) return false;
  look_at_running();
  return launcher_.launches() >= (launcher_.runs_large() ? kLaunchesAhead : kSmallOnesAhead);
}

// Returns whether this rank has the call wait behind the one before, to go with it.
bool RequestQueue::joins(size_t at) const {
  constexpr uint32_t kBoth = GC_LINE_SMALL | GC_LINE_WAITS;
  return at < n_published_ && (queue_[at]->line.flags & kBoth) == kBoth && queue_[at - 1]->line.flags & GC_LINE_SMALL;
}

// Returns whether all ranks have come to the call with device memory, and all let it share a launch: behind the call
// before, where there is one.
bool RequestQueue::joins_everywhere(size_t at) {
  Request& call = *queue_[at];
  const auto verdict = matcher_.look(call.wait);
  if (!verdict || *verdict != CallMatcher::Verdict::device) return false;
  matcher_.read_lines(call.call.place, &call.call.lines);
  const uint32_t wanted = at ? GC_LINE_SMALL | GC_LINE_WAITS : GC_LINE_SMALL;
  return std::all_of(call.call.lines.begin(), call.call.lines.end(),
                     [&](const gc_board_line& line) { return (line.flags & wanted) == wanted; });
}

// From the first of the queue on; 0: rank 0 has not told yet.
Result<size_t> RequestQueue::find_batch_size() {
  const CallId& place = queue_.front()->call.place;
  if (description_.rank != 0) return joins(1) ? matcher_.batch_size(place) : Result<size_t>(1);
  size_t n = 1;
  if (joins(1) && joins_everywhere(0))
    while (joins(n) && joins_everywhere(n)) ++n;
  matcher_.tell_batch_size(place, n);
  return n;
}

Result<bool> RequestQueue::join(Request& call) {
  if (is_held(call)) return false;
  GC_TRY_AS(const size_t n, find_batch_size());
  if (n == 0) {
    if (time_to_look_around(call)) GC_TRY(matcher_.look_around(call.wait));
    return false;
  }
  if (n > n_published_) return Status::error(Code::internal, "rank 0 joins what this rank has not entered");
  for (size_t i = 0; i < n; ++i) {
    matcher_.read_lines(queue_[i]->call.place, &queue_[i]->call.lines);
    queue_[i]->stage = Request::Stage::agreed;
  }
  const CallId& last = queue_[n - 1]->call.place;
  matcher_.decide(last);
  window_.decided(last.number);
  return run_agreed(call);
}

Result<bool> RequestQueue::run_agreed(Request& call) {
  const uint32_t function = call.call.place.function;
  if (Status same = check_same_call(function, call.call.lines, description_.rank, description_.name); !same) {
    call.end_with(std::move(same));  // the communicator stays as good as it was
    return true;
  }
  return run_on_device(call);
}

// ---- on the device ----

Result<bool> RequestQueue::run_in_group(Request& call) {
  GroupRuntime::Outcome outcome;
  do {
    if (groups_.is_ready() && !may_launch(call)) return false;
    GC_TRY_AS(outcome, groups_.step(call.call));
  } while (outcome == GroupRuntime::Outcome::ready);
  if (outcome == GroupRuntime::Outcome::done) call.end_with({});
  if (outcome == GroupRuntime::Outcome::stage) give_to_host(call);
  return outcome == GroupRuntime::Outcome::done;
}

Result<bool> RequestQueue::run_on_device(Request& call) {
  const bool in_group = groups_of(call).fits(call.call);
  if (in_group && !call.is_persistent()) {
    call.stage = Request::Stage::in_group;
    return run_in_group(call);
  }
  call.in_group = in_group;
  if (!in_group && !runtime_of(call).fits(call.call)) {
    give_to_host(call);
    return false;
  }
  call.stage = Request::Stage::preparing;
  call.wait.start = Clock::now();
  return call.is_persistent() ? place(call) : prepare(call);
}

Result<bool> RequestQueue::place(Request& call) {
  GC_TRY_AS(const RequestLauncher::Readiness readiness, persistent_.place(call));
  if (readiness == RequestLauncher::Readiness::waiting) {
    if (time_to_look_around(call)) GC_TRY(persistent_.look_around_for_place(call));
    return false;
  }
  if (readiness == RequestLauncher::Readiness::impossible) {
    give_to_host(call);
    return false;
  }
  call.stage = Request::Stage::resting;
  if (call.start_requested) {
    persistent_.start(call);
    if (description_.size > 1) first_entered_.store(1);  // as in publish()
    persistent_.publish_starts();
  } else {
    __atomic_store_n(&call.state, int{GC_READY}, __ATOMIC_RELEASE);  // partner: the component's look
  }
  return true;
}

Result<bool> RequestQueue::prepare(Request& call) {
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
Result<bool> RequestQueue::can_go_along(DeviceCall& call) {
  if (!check_same_call(call.place.function, call.lines, description_.rank, description_.name)) return false;
  if (!runtime_.fits(call)) return false;
  GC_TRY_AS(const bool prepared, runtime_.prepared(call));
  return prepared && call.part.queue.sends.empty() && call.part.queue.recvs.empty();
}

Result<bool> RequestQueue::launch(Request& call) {
  if (!may_launch(call)) return false;
  together_.assign(1, &call);
  for (size_t i = 1; i < queue_.size() && queue_[i]->stage == Request::Stage::agreed; ++i) {
    GC_TRY_AS(const bool goes_along, can_go_along(queue_[i]->call));
    if (!goes_along) break;
    together_.push_back(queue_[i]);
  }
  GC_TRY_AS(const size_t launched, launcher_.launch(together_));
  for (size_t i = 0; i < launched; ++i) together_[i]->stage = Request::Stage::running;
  return launched != 0;
}

void RequestQueue::look_at_running() {
  while (auto ended = launcher_.next_ended()) {
    if (ended->status)
      ended->call->end_with({});
    else
      give_up(*ended->call, std::move(ended->status));
  }
}

}  // namespace gpucoll::coll
