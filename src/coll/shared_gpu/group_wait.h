// Waits for another rank of a device's group to do its part of the present call, and looks whether it still can.
//
// Thread safety: one caller at a time. Ownership: borrows all that it is given.
#pragma once
#include <chrono>

#include "coll/match/call_matcher.h"

namespace gpucoll::coll {

class GroupWait {
 public:
  GroupWait(const gc_comm_description& description, CallMatcher& matcher)
      : description_(description), matcher_(matcher) {}

  // Begins a call. leads: whether this rank leads its group. polite: another rank may need this processor.
  void begin(bool leads, bool polite);
  // Waits until come(). `what` the rank has to do, in words: "rank 2 died before it WHAT MPI_Allreduce". idle: called
  // meanwhile; may be null.
  template <class Come>
  Status await(int rank, const char* what, const CallId& place, void (*idle)(), const Come& come) const {
    constexpr int kLooksPerCheck = 4096;
    for (int look = 1; !come(); ++look) {
      if (idle) idle();
      if (polite_) give_way();
      if (look % kLooksPerCheck == 0) GC_TRY(look_at(rank, what, place, come));
    }
    return {};
  }
  // Returns what keeps `rank` from coming: ok where nothing does, or where it has come meanwhile.
  template <class Come>
  Status look_at(int rank, const char* what, const CallId& place, const Come& come) const {
    Status wrong = what_is_wrong(rank, what, place);
    return wrong || come() ? Status() : wrong;
  }
  // Does so for a caller that does not wait, which calls it again and again: now and then.
  template <class Come>
  Status look_now_and_then(int rank, const char* what, const CallId& place, const Come& come) {
    return time_to_look() ? look_at(rank, what, place, come) : Status();
  }

 private:
  using Clock = std::chrono::steady_clock;
  bool time_to_look();
  static void give_way() noexcept;
  Status what_is_wrong(int rank, const char* what, const CallId& place) const;

  const gc_comm_description& description_;
  CallMatcher& matcher_;
  bool leads_ = false, polite_ = false;
  Clock::time_point start_ = {}, next_look_ = {};
};

}  // namespace gpucoll::coll
