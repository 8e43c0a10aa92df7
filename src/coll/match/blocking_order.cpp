#include "coll/match/blocking_order.h"

#include <sched.h>

#include <utility>

#include "base/mutant.h"
#include "base/observe/trace.h"

namespace gpucoll::coll {

void BlockingOrder::leave_thread() {
  if (std::exchange(known_, false)) ProgressThread::instance().remove(this);
}

// ---- the caller ----

void BlockingOrder::join_thread() {
  known_ = true;
  ProgressThread::instance().register_client(this, &description_, matcher_.name());
}

Status BlockingOrder::find_number(const CallId& place, const Component* among) {
  constexpr int kLooksPerCheck = 4096;
  CallWait wait = {place, nullptr};
  for (int looks = 1;; ++looks) {
    const uint64_t number = matcher_.numbers().number_of(place, &wait.rank, among);
    number_.store(number);
    if (number) return {};
    description_.calls->progress();
    sched_yield();  // some rank is about to tell its number
    if (looks % kLooksPerCheck) continue;
    GC_TRY(matcher_.failures().usable(wait.rank));
    GC_TRY(matcher_.watch().look_around(wait));
  }
}

void BlockingOrder::await_others() {
  const uint64_t number = number_.load();
  if (ProgressThread::instance().launch_earlier(number, this)) return;
  const trace::Span span(trace::What::order);
  while (!ProgressThread::instance().launch_earlier(number, this)) {
    description_.calls->progress();
    sched_yield();  // to whom this waits for, a thread of this process
  }
}

// ---- the ProgressThread ----

void BlockingOrder::look_anew(uint64_t present) {
  seen_ = present;
  due_ = 0;
  wait_ = {place_of(present), nullptr};
  if (wait_.place.order != GC_ORDER_NEIGHBORS) return;
  among_ = own_component(matcher_.entries());
  wait_.among = &among_;
  wait_.rank = description_.rank;
}

// Takes the number that the caller has learnt. Called after a look at the others' lines: a peer that has launched the
// call may have written its line anew, but only after the caller had stored the number and decided.
void BlockingOrder::take_known_number() {
  if (const uint64_t known = number_.load(); known && !gc_mutant(333)) due_ = known;
}

// The call may end meanwhile, and what is seen be that of the next one: then first_due() does not regard it.
bool BlockingOrder::progress() {
  const uint64_t present = present_.load(std::memory_order_acquire);  // partner: enter()
  if (present == 0) return true;
  if (present != seen_) look_anew(present);
  if (due_) return true;
  const auto verdict = matcher_.look(wait_);
  int missing;
  if (verdict && *verdict == CallMatcher::Verdict::device)
    due_ = matcher_.numbers().number_of(wait_.place, &missing, wait_.among);
  if (!due_) take_known_number();
  return true;
}

bool BlockingOrder::puts_behind(uint64_t number) {
  const uint64_t present = present_.load();
  if (present == 0) return true;
  if (present != seen_) return false;
  if (due_) return true;
  const bool behind = matcher_.numbers().puts_behind(wait_.place, number, wait_.among);
  take_known_number();
  return due_ || behind;
}

bool BlockingOrder::catches_up() {
  const uint64_t present = present_.load();
  const CallId place = place_of(present);
  return matcher_.numbers().catches_up(present ? &place : nullptr);
}

uint64_t BlockingOrder::first_ready() const noexcept { return present_.load() != 0 && !first_due(); }

uint64_t BlockingOrder::first_due() const noexcept {
  return present_.load(std::memory_order_acquire) == seen_ ? due_ : 0;
}

}  // namespace gpucoll::coll
