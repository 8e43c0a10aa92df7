#include "coll/request/request_queue.h"

#include <sched.h>

#include <utility>

#include "base/log.h"
#include "base/mutant.h"
#include "coll/match/board_line.h"

namespace gpucoll::coll {
namespace {

// How long start() looks for the other ranks: those that come together launch in it.
constexpr auto kFirstPatience = std::chrono::microseconds(5);

}  // namespace

void RequestQueue::abandon() {
  ProgressThread::instance().remove(this);
  const log::Later lines;
  std::lock_guard lock(mutex_);
  driver_.abandon();
}

void RequestQueue::stop() {
  ProgressThread::instance().remove(this);
  const log::Later lines;
  std::lock_guard lock(mutex_);
  driver_.stop();
}

void RequestQueue::finish(core::Closing& closing) {
  std::lock_guard lock(mutex_);
  persistent_.finish(closing);
}

void RequestQueue::release() {
  std::lock_guard lock(mutex_);
  pool_.release();
}

// ---- beginning and ending ----

Request* RequestQueue::take(uint32_t function) {
  Request* const call = pool_.take(*this);
  call->call.place = {GC_ORDER_NONBLOCKING, 0, function};
  call->runtime = call->is_persistent() ? &persistent_.runtime() : &runtime_;
  call->groups = call->is_persistent() ? &persistent_.groups() : &groups_;
  return call;
}

// Returns whether a call with host memory has nothing to wait for.
bool RequestQueue::passes_by(uint32_t function) {
  if (!sequence_.empty()) return false;
  if (gc_is_counted(function)) {
    if (!sequence_.window().is_free(comm_.orders[GC_ORDER_NONBLOCKING].sequence + 1)) return false;
    gc_publish_host(&comm_, GC_ORDER_NONBLOCKING, function);
  }
  if (sequence_.window().all_free()) __atomic_store_n(&comm_.busy, 0, __ATOMIC_RELAXED);
  return true;
}

// Plans a call that nobody knows yet. The lock is not held, since this copies host memory, and others would wait for
// that.
void RequestQueue::plan(Request* call, const gc_call* device_call) {
  Result<bool> planned = device_call ? call->runtime->plan(*device_call, &call->call) : Result<bool>(false);
  call->on_device = planned && *planned;
  call->wrong = std::move(planned).status();
  if (!call->on_device) return;
  if (call->is_persistent())
    call->memory.remember(*device_call, description_.size);
  else
    call->call.part.packing.on_host().load();
}

void RequestQueue::enqueue(Request* call, const gc_call* device_call) {
  const bool counted = gc_is_counted(call->call.place.function);
  call->state = GC_WAITS;
  call->stage = Request::Stage::queued;
  call->code = Code::ok;
  call->unreported = {};
  call->start_requested = call->in_group = call->abandoned = false;
  call->call.place.number = counted ? ++comm_.orders[GC_ORDER_NONBLOCKING].sequence : 0;
  call->number = call->own_number = 0;
  call->wait = {call->call.place, nullptr};
  call->look_around_later();
  call->line = {};
  if (call->on_device)
    call->line = line_of(*device_call, description_.rank, description_.size, *call->call.part.device);
  if (call->on_device && !call->runtime->get()) call->line.flags |= call->groups->offer(call->call, false);
  if (call->on_device)
    needs_processors_.store((call->line.flags & GC_LINE_GROUP) || call->call.part.device->is_emulated(),
                            std::memory_order_relaxed);
  __atomic_store_n(&comm_.busy, 1, __ATOMIC_RELAXED);
  sequence_.push(*call);
  if (!std::exchange(known_, true))
    ProgressThread::instance().register_client(this, &description_, matcher_.name() - 1);
}

Result<Request*> RequestQueue::start(uint32_t function, const gc_call* device_call) {
  Request* call;
  {
    std::lock_guard lock(mutex_);
    if (!device_call && passes_by(function)) return nullptr;
    call = take(function);
  }
  plan(call, device_call);
  {
    const log::Later lines;
    std::lock_guard lock(mutex_);
    enqueue(call, device_call);
    driver_.go_on();
    if (!call->is_persistent())
      go_on_a_little_while([&] { return sequence_.is_first(*call) && call->waits_for_others(); });
  }
  leave_to_thread();
  return call;
}

// The caller has its error already, the others learn of it when it is its turn.
void RequestQueue::refuse(uint32_t function) {
  {
    const log::Later lines;
    std::lock_guard lock(mutex_);
    Request* const call = take(function);
    call->on_device = false;
    call->wrong = Status::error(Code::invalid_argument, "a buffer is NULL");
    call->wrong.mark_told();
    enqueue(call, nullptr);
    call->abandoned = true;
    driver_.go_on();
  }
  leave_to_thread();
}

// Ends: what is queued is told or fails within the timeout, and so does the wait for those who read.
void RequestQueue::await_readers() {
  for (CallWait wait = {{}, nullptr};; description_.calls->progress()) {
    const log::Later lines;
    std::lock_guard lock(mutex_);
    driver_.go_on();
    if (!sequence_.empty()) continue;
    const LineWindow::Reader reader = gc_mutant(330) ? LineWindow::Reader{-1, 0} : sequence_.window().reader();
    const uint64_t arrival = matcher_.entries().own_lines(GC_ORDER_NONBLOCKING)[reader.number % GC_BOARD_LINES].arrival;
    wait.place = {GC_ORDER_NONBLOCKING, reader.number, gc_arrival_function(arrival)};
    wait.rank = reader.rank;
    if (wait.rank < 0 || !matcher_.watch().look_around(wait)) return;
  }
}

void RequestQueue::leave_to_thread() {
  if (waits() && !on_thread_.exchange(true)) ProgressThread::instance().add(this);
}

template <class Condition>
void RequestQueue::go_on_a_little_while(const Condition& condition) {
  const auto end = Clock::now() + kFirstPatience;
  while (condition() && Clock::now() < end) driver_.go_on();
}

bool RequestQueue::progress() {
  const log::Later lines;
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return false;
  driver_.go_on();
  return true;
}

// MPI, which waits without, keeps the processors that the device's threads need, or whoever is at it.
void RequestQueue::turn() {
  const log::Later lines;
  std::unique_lock lock(mutex_, std::try_to_lock);
  bool polite = needs_processors_.load(std::memory_order_relaxed);
  if (lock.owns_lock()) {
    driver_.go_on();
    polite = (polite && waits()) || (!driver_.settled() && runtime_.get()->device().is_emulated()) ||
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

bool RequestQueue::puts_behind(uint64_t number) {
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return false;
  order_.look();
  return order_.puts_behind(number);
}

bool RequestQueue::settled() {
  std::lock_guard lock(mutex_);
  return driver_.settled();
}

void RequestQueue::host_begun(Request* call) {
  const log::Later lines;
  std::lock_guard lock(mutex_);
  sequence_.pop();
  pool_.put_back(*call);
  driver_.go_on();
}

// By the caller, and without the lock: others would wait for the copy.
Code RequestQueue::end(Request* call) {
  const Code code = call->code;
  if (code == Code::ok && call->on_device) call->call.part.packing.on_host().store();
  std::lock_guard lock(mutex_);
  if (call->is_persistent())
    __atomic_store_n(&call->state, int{GC_READY}, __ATOMIC_RELAXED);  // the caller's own look is next
  else
    pool_.put_back(*call);
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
  driver_.give_up_starts(std::move(why));
}

void RequestQueue::publish_starts() {
  {
    const log::Later lines;
    std::lock_guard lock(mutex_);
    order_.expect_number();
    persistent_.publish_starts();
    driver_.go_on();
    go_on_a_little_while([&] { return persistent_.any_started(); });
  }
  leave_to_thread();
}

void RequestQueue::free(Request* call) {
  const log::Later lines;
  std::lock_guard lock(mutex_);
  persistent_.free(*call);
  pool_.put_back(*call);
}

}  // namespace gpucoll::coll
