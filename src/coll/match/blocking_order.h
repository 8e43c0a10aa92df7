// Puts the blocking collectives of one MPI communicator in order among what this process launches (progress_thread.h).
// This concerns processes whose threads use several communicators. In other processes a call pays a few stores, and
// looks for nobody.
//
// The life of a call: enter() before this rank is ready for it; set_number() once all have come with device memory, and
// before this rank lets the others write their lines anew; wait_until_first() before it launches; leave() when it has
// launched, or is not going to.
// Thread safety: the communicator's caller calls these; the ProgressThread calls those of ProgressClient, with its lock
// held.
#pragma once
#include <atomic>
#include <cstdint>

#include "coll/match/call_matcher.h"
#include "mpi/progress_thread.h"

namespace gpucoll::coll {

class BlockingOrder final : public ProgressClient {
 public:
  BlockingOrder(const gc_comm_description& description, CallMatcher& matcher)
      : description_(description), matcher_(matcher) {}
  ~BlockingOrder() override { leave_thread(); }
  BlockingOrder(const BlockingOrder&) = delete;
  BlockingOrder& operator=(const BlockingOrder&) = delete;
  // Tells that there are no more calls.
  void leave_thread();

  // Before the rank is ready: who sees none here, and then launches, does so with a smaller number.
  void enter(const CallId& place) {
    if (description_.size == 1) return;
    if (!known_) join_thread();
    number_.store(0);
    present_.store(name_of(place));
  }
  // Learns the call's number. Errors: as ArrivalWatch::look_around().
  Status set_number(const CallId& place, const Component* among) {
    // Without other communicators until now, all numbers that this process gives later are greater (catches_up()).
    return ProgressThread::instance().several_communicators() ? find_number(place, among) : Status();
  }
  // Waits until earlier calls are launched, with MPI progress.
  void wait_until_first() {
    if (number_.load()) await_others();
  }
  void leave() noexcept { present_.store(0, std::memory_order_release); }  // partner: first_ready() of other threads

  bool progress() override;
  bool progress_on_thread() override { return false; }
  uint64_t first_ready() const noexcept override;
  uint64_t first_due() const noexcept override;
  bool puts_behind(uint64_t number) override;
  bool catches_up() override;

 private:
  static uint64_t name_of(const CallId& place) noexcept {
    return place.number << 16 | place.order << 8 | place.function;
  }
  static CallId place_of(uint64_t name) noexcept {
    return {static_cast<uint32_t>(name >> 8 & 0xff), name >> 16, static_cast<uint32_t>(name & 0xff)};
  }
  void join_thread();
  Status find_number(const CallId& place, const Component* among);
  void await_others();
  void look_anew(uint64_t present);
  void take_known_number();

  const gc_comm_description& description_;
  CallMatcher& matcher_;
  bool known_ = false;                // to the ProgressThread
  std::atomic<uint64_t> present_{0};  // the call, from enter() to leave(); 0: none
  std::atomic<uint64_t> number_{0};   // of the call; 0: it waits for nobody
  // State of the ProgressThread: what it has seen of a call.
  uint64_t seen_ = 0;
  CallWait wait_ = {};
  Component among_;
  uint64_t due_ = 0;  // its number
};

}  // namespace gpucoll::coll
