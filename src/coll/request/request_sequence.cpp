#include "coll/request/request_sequence.h"

#include <algorithm>
#include <chrono>

#include "base/mutant.h"

namespace gpucoll::coll {
namespace {

// Returns the kind of a call that is not refused.
uint32_t kind_of(const Request& call) {
  if (!call.on_device) return GC_KIND_HOST;
  return call.call.part.has_device_memory ? GC_KIND_DEVICE : GC_KIND_EITHER;
}

}  // namespace

bool RequestSequence::is_awaited() const noexcept {
  const auto awaited = [](const Request* call) { return !call->is_idle(); };
  return std::any_of(queue_.begin(), queue_.end(), awaited);
}

void RequestSequence::push(Request& call) {
  queue_.push_back(&call);
  look();
}

void RequestSequence::pop() {
  queue_.pop_front();
  if (n_published_) --n_published_;
  look();
  if (!empty()) first().wait.start = std::chrono::steady_clock::now();
}

void RequestSequence::look() {
  n_queued_.store(queue_.size());
  order_.set_first(empty() ? nullptr : queue_.front());
}

// ---- the board ----

Status RequestSequence::look_after_readers(Request& call) {
  const LineWindow::Reader reader = window_.reader_of(call.call.place.number);
  call.wait.place = {GC_ORDER_NONBLOCKING, reader.number, call.call.place.function};
  call.wait.rank = reader.rank;
  return call.wait.rank < 0 ? Status() : matcher_.watch().look_around(call.wait);
}

// Returns the flags of the call at `at` in the queue, which is about to be published.
uint32_t RequestSequence::flags_of(size_t at) const {
  const Request& call = *queue_[at];
  const core::TaskQueue& tasks = call.call.part.queue;
  if (call.is_persistent() || !call.on_device || !call.is_small()) return 0;
  // Links for messages are a matter of two ranks: others do not know whether they are missing.
  if (!tasks.sends.empty() || !tasks.recvs.empty()) return 0;
  if (at == 0) return GC_LINE_SMALL;
  const Request& before = *queue_[at - 1];
  const bool undecided = before.state == GC_WAITS &&
                         (before.stage == Request::Stage::published || before.stage == Request::Stage::joining);
  const bool next = before.call.place.number + 1 == call.call.place.number;
  return undecided && next ? GC_LINE_SMALL | GC_LINE_WAITS : GC_LINE_SMALL;
}

void RequestSequence::publish(Request& call, uint32_t flags) {
  const CallId& place = call.call.place;
  call.line.flags |= flags;
  call.stage = Request::Stage::published;
  call.wait = {place, nullptr, call.call.part.has_device_memory || gc_mutant(112)};
  if (place.number == 0) return;
  const bool refuses = !call.wrong && !call.runtime->staging().for_all();
  if (call.on_device || refuses) window_.keep(place.number);
  const bool ready = call.on_device && !refuses && is_first(call);
  if (ready) order_.expect_number();
  call.line.number = ready ? GC_NUMBER_COMING : GC_NUMBER_NONE;
  matcher_.publish(place, refuses ? uint32_t{GC_KIND_REFUSED} : kind_of(call), call.line);
  if (ready) order_.give_number(call);
}

void RequestSequence::publish_more() {
  for (; n_published_ < queue_.size(); ++n_published_) {
    Request& call = *queue_[n_published_];
    if (call.call.place.number && !window_.is_free(call.call.place.number)) return;
    publish(call, flags_of(n_published_));
  }
}

// ---- which ones share a launch ----

// Returns whether this rank has the call wait behind the one before, to go with it.
bool RequestSequence::joins(size_t at) const {
  constexpr uint32_t kBoth = GC_LINE_SMALL | GC_LINE_WAITS;
  return at < n_published_ && (queue_[at]->line.flags & kBoth) == kBoth && queue_[at - 1]->line.flags & GC_LINE_SMALL;
}

// Returns whether all ranks have come to the call with device memory, and all let it share a launch: behind the call
// before, where there is one.
bool RequestSequence::joins_everywhere(size_t at) {
  Request& call = *queue_[at];
  const auto verdict = matcher_.look(call.wait);
  if (!verdict || *verdict != CallMatcher::Verdict::device) return false;
  matcher_.read_lines(call.call.place, &call.call.lines);
  const uint32_t wanted = at ? GC_LINE_SMALL | GC_LINE_WAITS : GC_LINE_SMALL;
  return std::all_of(call.call.lines.begin(), call.call.lines.end(),
                     [&](const gc_board_line& line) { return (line.flags & wanted) == wanted; });
}

// From the first of the queue on; 0: rank 0 has not told yet.
Result<size_t> RequestSequence::find_batch_size() {
  const CallId& place = queue_.front()->call.place;
  if (description_.rank != 0) return joins(1) ? matcher_.batch_size(place) : Result<size_t>(1);
  size_t n = 1;
  if (joins(1) && joins_everywhere(0))
    while (joins(n) && joins_everywhere(n)) ++n;
  matcher_.tell_batch_size(place, n);
  return n;
}

// Returns the first of n calls of the queue to which, as far as this rank sees, a rank has not come; null: there is
// none. Rank 0 has seen all of them, but the copy of a third rank's board, where that is on another node, may be later
// here than there.
Result<Request*> RequestSequence::find_late(size_t n) {
  for (size_t at = 1; at < n; ++at) {
    GC_TRY_AS(const CallMatcher::Verdict verdict, matcher_.look(queue_[at]->wait));
    if (verdict == CallMatcher::Verdict::waiting) return queue_[at];
    if (verdict != CallMatcher::Verdict::device)
      return Status::error(Code::internal, "rank 0 joins a call that another rank does not make on its device");
  }
  return static_cast<Request*>(nullptr);
}

Result<bool> RequestSequence::agree() {
  Request& call = first();
  GC_TRY_AS(const size_t n, find_batch_size());
  if (n == 0) {
    if (call.time_to_look_around()) GC_TRY(matcher_.watch().look_around(call.wait));
    return false;
  }
  if (n > n_published_) return Status::error(Code::internal, "rank 0 joins what this rank has not entered");
  if (description_.rank != 0) {
    GC_TRY_AS(Request* const late, find_late(n));
    if (late) {
      late->wait.runtime = call.wait.runtime;
      late->wait.start = call.wait.start;
      if (call.time_to_look_around()) GC_TRY(matcher_.watch().look_around(late->wait));
      return false;
    }
  }
  for (size_t i = 0; i < n; ++i) {
    matcher_.read_lines(queue_[i]->call.place, &queue_[i]->call.lines);
    queue_[i]->stage = Request::Stage::agreed;
    queue_[i]->number = call.number;
  }
  const CallId& last = queue_[n - 1]->call.place;
  matcher_.decide(last);
  window_.decided(last.number);
  return true;
}

}  // namespace gpucoll::coll
