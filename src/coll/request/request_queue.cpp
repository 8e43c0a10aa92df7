#include "coll/request/request_queue.h"

#include <sched.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "base/mutant.h"
#include "coll/match/board_line.h"

namespace gpucoll::coll {
namespace {

// How long start() looks for the other ranks: those that come together launch in it.
constexpr auto kFirstPatience = std::chrono::microseconds(5);

// Returns the kind of a call that is not refused.
uint32_t kind_of(const Request& call) {
  if (!call.on_device) return GC_KIND_HOST;
  return call.call.part.has_device_memory ? GC_KIND_DEVICE : GC_KIND_EITHER;
}

Status aborted() { return Status::error(Code::aborted, "MPI is being finalized while it is under way"); }

Status ended() {
  return Status::error(Code::aborted, "MPI is being finalized: all ranks must complete the same collectives before");
}

bool runs_on_processors(const gpu::Device& device) { return std::string_view(device.identity().kind) == "emu"; }

}  // namespace

// A program need not start what it makes.
bool RequestQueue::is_queue_awaited() const noexcept {
  const auto awaited = [](const Request* call) { return !call->is_idle(); };
  return std::any_of(queue_.begin(), queue_.end(), awaited);
}

CallId RequestQueue::first_place() const noexcept {
  if (!queue_.empty() && queue_.front()->call.place.number) return queue_.front()->call.place;
  return {GC_ORDER_NONBLOCKING, comm_.orders[GC_ORDER_NONBLOCKING].sequence + 1, GC_FUNCTION_none};
}

// Calls that run on all ranks end by themselves.
void RequestQueue::abandon() {
  ProgressThread::instance().remove(this);
  const log::Later lines;
  std::lock_guard lock(mutex_);
  if (is_queue_awaited() || persistent_.any_started())
    matcher_.failures().fail(first_place(), comm_, aborted());
  else if (queued())
    matcher_.failures().fail_quietly(first_place(), comm_, ended());  // they may be connecting to this rank
}

void RequestQueue::stop() {
  ProgressThread::instance().remove(this);
  const log::Later lines;
  std::lock_guard lock(mutex_);
  launcher_.stop();
  if (is_queue_awaited() && runtime_.get())
    runtime_.get()->raise_fault(aborted());  // the others may run what is launched nowhere else
  while (Request* call = launcher_.take_running()) call->end_with(aborted());
  persistent_.stop(aborted());
  for (Request* call : std::exchange(queue_, {}))
    if (call->is_idle() && !gc_mutant(104))
      call->end_idle(aborted());
    else if (!call->abandoned)
      call->end_with(aborted());
  n_published_ = 0;
  note_first();
}

void RequestQueue::finish(core::Closing& closing) {
  std::lock_guard lock(mutex_);
  persistent_.finish(closing);
}

void RequestQueue::release() {
  std::lock_guard lock(mutex_);
  for (const auto& call : all_) call->call.scratch.release();
}

// ---- beginning and ending ----

Request* RequestQueue::take_spare() {
  if (spare_.empty()) {
    all_.push_back(std::make_unique<Request>(*this));
    spare_.reserve(all_.size());
    return all_.back().get();
  }
  Request* call = spare_.back();
  spare_.pop_back();
  return call;
}

void RequestQueue::recycle(Request* call) {
  call->call.part.clear();
  call->call.scratch.release_much();
  spare_.push_back(call);
}

// Returns whether a call with host memory has nothing to wait for.
bool RequestQueue::passes_by(uint32_t function) {
  if (!queue_.empty()) return false;
  if (gc_is_counted(function)) {
    if (!window_.is_free(comm_.orders[GC_ORDER_NONBLOCKING].sequence + 1)) return false;
    gc_publish_host(&comm_, GC_ORDER_NONBLOCKING, function);
  }
  if (window_.all_free()) __atomic_store_n(&comm_.busy, 0, __ATOMIC_RELAXED);
  return true;
}

// Plans a call that nobody knows yet. The lock is not held, since this copies host memory, and others would wait for
// that.
void RequestQueue::plan(Request* call, uint32_t function, const gc_call* device_call) {
  call->call.place = {GC_ORDER_NONBLOCKING, 0, function};
  Result<bool> planned = device_call ? runtime_of(*call).plan(*device_call, &call->call) : Result<bool>(false);
  call->on_device = planned && *planned;
  call->wrong = std::move(planned).status();
  if (!call->on_device) return;
  if (call->is_persistent())
    call->memory.remember(*device_call, description_.size);
  else
    call->call.part.packing.on_host().load();
}

void RequestQueue::enqueue(Request* call, uint32_t function, const gc_call* device_call) {
  const bool counted = gc_is_counted(function);
  const uint64_t number = counted ? ++comm_.orders[GC_ORDER_NONBLOCKING].sequence : 0;
  call->state = GC_WAITS;
  call->stage = Request::Stage::queued;
  call->code = Code::ok;
  call->unreported = {};
  call->start_requested = call->in_group = call->abandoned = false;
  call->call.place = {GC_ORDER_NONBLOCKING, number, function};
  call->number = call->own_number = 0;
  call->wait = {call->call.place, nullptr};
  call->next_look_around = call->wait.start + kBetweenLooksAround;
  call->line = {};
  if (call->on_device)
    call->line = line_of(*device_call, description_.rank, description_.size, *call->call.part.device);
  if (call->on_device && !runtime_of(*call).get()) call->line.flags |= groups_of(*call).offer(call->call, false);
  if (call->on_device)
    needs_processors_.store((call->line.flags & GC_LINE_GROUP) || runs_on_processors(*call->call.part.device),
                            std::memory_order_relaxed);
  __atomic_store_n(&comm_.busy, 1, __ATOMIC_RELAXED);
  queue_.push_back(call);
  if (!std::exchange(known_, true))
    ProgressThread::instance().register_client(this, &description_, matcher_.name() - 1);
  note_first();
}

Result<Request*> RequestQueue::start(uint32_t function, const gc_call* device_call) {
  Request* call;
  {
    std::lock_guard lock(mutex_);
    if (!device_call && passes_by(function)) return nullptr;
    call = take_spare();
  }
  plan(call, function, device_call);
  {
    const log::Later lines;
    std::lock_guard lock(mutex_);
    enqueue(call, function, device_call);
    go_on();
    if (!call->is_persistent()) go_on_a_little_while([&] { return is_first(*call) && call->waits_for_others(); });
  }
  leave_to_thread();
  return call;
}

// The caller has its error already, the others learn of it when it is its turn.
void RequestQueue::refuse(uint32_t function) {
  {
    const log::Later lines;
    std::lock_guard lock(mutex_);
    Request* const call = take_spare();
    call->on_device = false;
    call->wrong = Status::error(Code::invalid_argument, "a buffer is NULL");
    call->wrong.mark_told();
    enqueue(call, function, nullptr);
    call->abandoned = true;
    go_on();
  }
  leave_to_thread();
}

// Ends: what is queued is told or fails within the timeout, and so does the wait for those who read.
void RequestQueue::await_readers() {
  for (CallWait wait = {{}, nullptr};; description_.calls->progress()) {
    const log::Later lines;
    std::lock_guard lock(mutex_);
    go_on();
    if (!queue_.empty()) continue;
    const LineWindow::Reader reader = gc_mutant(330) ? LineWindow::Reader{-1, 0} : window_.reader();
    const uint64_t arrival = matcher_.entries().own_lines(GC_ORDER_NONBLOCKING)[reader.number % GC_BOARD_LINES].arrival;
    wait.place = {GC_ORDER_NONBLOCKING, reader.number, gc_arrival_function(arrival)};
    wait.rank = reader.rank;
    if (wait.rank < 0 || !matcher_.watch().look_around(wait)) return;
  }
}

void RequestQueue::leave_to_thread() {
  if (waits() && !on_thread_.exchange(true)) ProgressThread::instance().add(this);
}

bool RequestQueue::is_first(const Request& call) const { return !queue_.empty() && queue_.front() == &call; }

template <class Condition>
void RequestQueue::go_on_a_little_while(const Condition& condition) {
  const auto end = Clock::now() + kFirstPatience;
  while (condition() && Clock::now() < end) go_on();
}

bool RequestQueue::progress() {
  const log::Later lines;
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return false;
  go_on();
  return true;
}

// MPI, which waits without, keeps the processors that the device's threads need, or whoever is at it.
void RequestQueue::turn() {
  const log::Later lines;
  std::unique_lock lock(mutex_, std::try_to_lock);
  bool polite = needs_processors_.load(std::memory_order_relaxed);
  if (lock.owns_lock()) {
    go_on();
    polite = (polite && waits()) || (!launcher_.settled() && runtime_.get()->emulated()) ||
             groups_.needs_processors() || persistent_.needs_processors();
    lock.unlock();
  }
  if (polite) sched_yield();
}

// A thread that queues a call after the last look here finds that the thread does not have this object any more.
bool RequestQueue::progress_on_thread() {
  progress();
  if (waits()) return true;
  on_thread_.store(false);
  return waits() && !on_thread_.exchange(true);
}

bool RequestQueue::settled() {
  std::lock_guard lock(mutex_);
  return launcher_.settled();
}

void RequestQueue::host_begun(Request* call) {
  const log::Later lines;
  std::lock_guard lock(mutex_);
  pop_first();
  recycle(call);
  go_on();
}

// By the caller, and without the lock: others would wait for the copy.
Code RequestQueue::end(Request* call) {
  const Code code = call->code;
  if (code == Code::ok && call->on_device) call->call.part.packing.on_host().store();
  std::lock_guard lock(mutex_);
  if (call->is_persistent())
    __atomic_store_n(&call->state, int{GC_READY}, __ATOMIC_RELAXED);  // the caller's own look is next
  else
    recycle(call);
  return code;
}

// Before it has a place, it is only noted. While it rests nobody else has to do with it.
void RequestQueue::restart(Request* call) {
  const log::Later lines;
  std::unique_lock lock(mutex_);
  Status memory;
  if (call->stage == Request::Stage::resting) {
    lock.unlock();
    memory = contained([&] { return call->memory.check(); });
    if (memory) call->call.part.packing.on_host().load();
    lock.lock();
  }
  call->start_requested = true;
  if (!memory) return refuse_start(*call, std::move(memory));
  if (call->stage == Request::Stage::failed) return call->end();
  if (call->stage == Request::Stage::resting) persistent_.start(*call);
}

// The other ranks may have started it, and count on this one.
void RequestQueue::refuse_start(Request& call, Status why) {
  call.end_with(why);
  why.mark_told();
  give_up_starts(std::move(why));
}

void RequestQueue::publish_starts() {
  {
    const log::Later lines;
    std::lock_guard lock(mutex_);
    order_.expect_number();
    persistent_.publish_starts();
    go_on();
    go_on_a_little_while([&] { return persistent_.any_started(); });
  }
  leave_to_thread();
}

void RequestQueue::free(Request* call) {
  const log::Later lines;
  std::lock_guard lock(mutex_);
  persistent_.free(*call);
  recycle(call);
}

void RequestQueue::give_up(Request& call, Status status) {
  if (call.stage == Request::Stage::in_group) groups_.fail(status);  // with its reason, before the words below
  persistent_.groups().fail(status);
  matcher_.failures().fail(call.call.place, comm_, status);
  raise_faults(status);
  persistent_.fail(status);
  call.end_with(std::move(status));
}

// The others count on this rank, and learn why they cannot before it ends.
void RequestQueue::raise_faults(const Status& why) {
  for (MpiRuntime* each : {&runtime_, &persistent_runtime()})
    if (each->get()) each->get()->raise_fault(why);
  for (GroupRuntime* each : {&groups_, &persistent_.groups()}) each->raise_fault(why);
}

void RequestQueue::give_up_starts(Status status) {
  const bool told = persistent_.groups().fail(status);  // with its reason, before the words below
  if (!told && !status.told() && !persistent_.runtime().get()) log::write(log::Level::error, "%s", status.what());
  matcher_.failures().fail({kStarts, 0, GC_FUNCTION_none}, comm_, status);
  raise_faults(status);
  persistent_.fail(std::move(status));
}

// Ends a call that other ranks prevent by ending MPI: no error, unless it is started.
void RequestQueue::end_quietly(Request& call, Status status) {
  persistent_.let_go(call);
  matcher_.failures().fail_quietly(first_place(), comm_, status);
  call.end_idle(std::move(status));
}

// ---- the board ----

// Looks after the ranks that keep the first call of the queue from being published: what has been launched goes on, but
// these ranks may have died.
Status RequestQueue::await_line(Request& call) {
  const LineWindow::Reader reader = window_.reader_of(call.call.place.number);
  call.wait.place = {GC_ORDER_NONBLOCKING, reader.number, call.call.place.function};
  call.wait.rank = reader.rank;
  return call.wait.rank < 0 ? Status() : matcher_.watch().look_around(call.wait);
}

// Returns the flags of the call at `at` in the queue, which is about to be published.
uint32_t RequestQueue::flags_of(size_t at) const {
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

void RequestQueue::publish(Request& call, uint32_t flags) {
  const CallId& place = call.call.place;
  call.line.flags |= flags;
  call.stage = Request::Stage::published;
  call.wait = {place, nullptr, call.call.part.has_device_memory || gc_mutant(112)};
  if (place.number == 0) return;
  const bool refuses = !call.wrong && !runtime_of(call).staging();
  if (call.on_device || refuses) window_.keep(place.number);
  const bool ready = call.on_device && !refuses && &call == queue_.front();
  if (ready) order_.expect_number();
  call.line.number = ready ? GC_NUMBER_COMING : GC_NUMBER_NONE;
  matcher_.publish(place, refuses ? uint32_t{GC_KIND_REFUSED} : kind_of(call), call.line);
  if (ready) order_.give_number(call);
}

void RequestQueue::publish_more() {
  for (; n_published_ < queue_.size(); ++n_published_) {
    Request& call = *queue_[n_published_];
    if (call.call.place.number && !window_.is_free(call.call.place.number)) return;
    publish(call, flags_of(n_published_));
  }
}

}  // namespace gpucoll::coll
