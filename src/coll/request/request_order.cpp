#include "coll/request/request_order.h"

namespace gpucoll::coll {

// ---- what is first ----

// Returns whether this rank is ready for the first of the queue, but may not know its number.
bool RequestOrder::is_first_unnumbered() const noexcept {
  return !due_ && first_ && first_->waits_for_others() && first_->own_number && !first_->is_persistent();
}

uint64_t RequestOrder::first_unnumbered() const noexcept {
  if (persistent_.any_started()) return GC_NUMBER_COMING;
  return is_first_unnumbered() ? first_->own_number : 0;
}

bool RequestOrder::is_due(const Request& call) const {
  switch (call.state == GC_HOST_TURN ? Request::Stage::queued : call.stage) {
    case Request::Stage::joining:
    case Request::Stage::agreed:
    case Request::Stage::preparing:
    case Request::Stage::launching: return !call.is_persistent();
    case Request::Stage::in_group: return groups_.is_to_launch();
    default: return false;
  }
}

// Returns the call that this rank is to launch first, where it has a number: it is the first of the queue, as this rank
// is not ready for others.
const Request* RequestOrder::find_due() {
  if (!first_) return nullptr;
  const bool numbered = first_->waits_for_others() && !first_->is_persistent() && find_number(*first_);
  return numbered || is_due(*first_) ? first_ : nullptr;
}

void RequestOrder::look() {
  if (description_.size == 1) return;  // what waits for no other rank stands in nobody's way
  due_ = find_due();
  due_start_ = persistent_.first_due();
  const uint64_t first = due_ ? due_->number : 0;
  first_due_.store(first && (!due_start_ || first <= due_start_) ? first : due_start_);
  first_ready_.store(first_unnumbered());
}

// ---- numbers ----

void RequestOrder::get_ready(Request& call) {
  expect_number();
  matcher_.numbers().get_ready(call.call.place);
  give_number(call);
  ProgressThread::instance().hurry();
}

void RequestOrder::give_number(Request& call) {
  call.own_number = matcher_.numbers().give_number(call.call.place);
  if (description_.size > 1) first_ready_.store(call.own_number);
}

bool RequestOrder::find_number(Request& call) {
  if (call.number) return true;
  if (!call.own_number || !call.on_device || !call.wrong) return false;
  const auto verdict = matcher_.look(call.wait);
  if (!verdict || *verdict != CallMatcher::Verdict::device) return false;
  call.number = matcher_.numbers().number_of(call.call.place, &call.wait.rank);
  return call.number;
}

// ---- launches ----

bool RequestOrder::puts_first_behind(uint64_t number) {
  return !is_first_unnumbered() || matcher_.numbers().puts_behind(first_->call.place, number);
}

bool RequestOrder::may_launch(const Request& call) {
  if (description_.size == 1) return true;
  persistent_.look();
  look();
  if (due_start_ && due_start_ < call.number) return false;
  return persistent_.puts_behind(call.number) && ProgressThread::instance().launch_earlier(call.number, client_);
}

bool RequestOrder::may_start(uint64_t number) {
  if (description_.size == 1) return true;
  look();
  if (due_ && due_->number <= number) return false;
  return puts_first_behind(number) && ProgressThread::instance().launch_earlier(number, client_);
}

}  // namespace gpucoll::coll
