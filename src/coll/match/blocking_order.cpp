#include "coll/match/blocking_order.h"

#include <sched.h>

#include <utility>

namespace gpucoll::coll {

void BlockingOrder::leave_thread() {
  if (std::exchange(known_, false)) ProgressThread::instance().remove(this);
}

// ---- the caller ----

// Before the clock is read for it: who sees none here, and then launches, does so with an earlier number.
void BlockingOrder::enter(const CallId& place) {
  if (description_.size == 1) return;
  if (!std::exchange(known_, true)) ProgressThread::instance().register_client(this, &description_);
  complete_ = 0;
  present_.store(name_of(place));
}

Status BlockingOrder::find_complete(const CallId& place, const Component* among) {
  constexpr int kLooksPerCheck = 4096;
  CallMatcher::Wait wait = {place, nullptr};
  for (int looks = 1;; ++looks) {
    complete_ = matcher_.complete_since(place, &wait.rank, among);
    if (complete_) return {};
    sched_yield();  // some rank is between its arrival and its clock
    if (looks % kLooksPerCheck == 0) GC_TRY(matcher_.look_around(wait));
  }
}

void BlockingOrder::await_others() {
  const auto start = Clock::now();
  while (!ProgressThread::instance().launch_earlier(complete_, this) &&
         Clock::now() - start < ProgressThread::kPatience) {
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
  among_ = matcher_.own_component();
  wait_.among = &among_;
  wait_.rank = description_.rank;
}

// The call may end meanwhile, and what is seen be that of the next one: then first_due() does not regard it.
bool BlockingOrder::progress() {
  const uint64_t present = present_.load(std::memory_order_acquire);  // partner: enter()
  if (present == 0) return true;
  if (present != seen_) look_anew(present);
  if (due_) return true;
  const auto verdict = matcher_.look(wait_);
  if (!verdict || *verdict != CallMatcher::Verdict::device) return true;
  int missing;
  due_ = matcher_.complete_since(wait_.place, &missing, wait_.among);
  due_since_ = Clock::now();
  return due_ != 0;
}

uint64_t BlockingOrder::first_entered() const noexcept { return present_.load() != 0; }  // seq_cst: enter()

uint64_t BlockingOrder::first_due() const noexcept {
  if (!due_ || present_.load(std::memory_order_acquire) != seen_) return 0;
  return Clock::now() - due_since_ > ProgressThread::kPatience ? 0 : due_;
}

}  // namespace gpucoll::coll
