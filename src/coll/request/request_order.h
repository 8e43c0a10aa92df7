// Puts the nonblocking and persistent collectives of one MPI communicator in order among what this process launches
// (progress_thread.h), as BlockingOrder does it for the blocking ones.
//
// This rank is ready for the first call of the queue, and for the persistent calls that it has started, but for no
// other: so the first of the queue and the first start in the schedule are all that there is to look at.
//
// Thread safety: first_ready() and first_due() from any thread; else one caller at a time. Ownership: borrows all that
// it is given.
#pragma once
#include <atomic>
#include <cstdint>

#include "coll/request/persistent_requests.h"
#include "coll/request/request.h"
#include "mpi/progress_thread.h"

namespace gpucoll::coll {

class RequestOrder {
 public:
  // client: what the ProgressThread knows the calls by.
  RequestOrder(const gc_comm_description& description, CallMatcher& matcher, PersistentRequests& persistent,
               const GroupRuntime& groups, const ProgressClient* client)
      : description_(description), matcher_(matcher), persistent_(persistent), groups_(groups), client_(client) {}

  // Notes which call is the first of the queue, and looks at it. Null: none is.
  void set_first(Request* first) {
    first_ = first;
    look();
  }
  // Finds what is to be launched first, and what other threads see of it. Call it after each change.
  void look();
  // Tells the other threads that this rank is about to be ready for a call, before others see it: none must pass by.
  void expect_number() noexcept {
    if (description_.size > 1) first_ready_.store(GC_NUMBER_COMING);
  }
  // Makes this rank ready for the first of the queue, which it has published without being so, and gives the number.
  // Not before it is first: those in front of it may have to be begun on the host.
  void get_ready(Request& call);
  // Gives this rank's number for a call for which it has just got ready.
  void give_number(Request& call);
  // Returns whether the call has a number. Once it is ready everywhere it has one soon.
  bool find_number(Request& call);
  // Return whether everything with smaller numbers than that of the first call, or of the first start, is launched
  // (progress_thread.h), also that of this communicator, which the ProgressThread takes for one.
  bool may_launch(const Request& call);
  bool may_start(uint64_t number);
  // See ProgressClient. REQUIRES of puts_behind(): look() has been called since the last change.
  bool puts_behind(uint64_t number) { return puts_first_behind(number) && persistent_.puts_behind(number); }
  uint64_t first_ready() const noexcept { return first_ready_.load(); }
  uint64_t first_due() const noexcept { return first_due_.load(); }

 private:
  bool is_first_unnumbered() const noexcept;
  uint64_t first_unnumbered() const noexcept;
  bool is_due(const Request& call) const;
  const Request* find_due();
  bool puts_first_behind(uint64_t number);

  const gc_comm_description& description_;
  CallMatcher& matcher_;
  PersistentRequests& persistent_;
  const GroupRuntime& groups_;
  const ProgressClient* const client_;
  Request* first_ = nullptr;      // of the queue
  const Request* due_ = nullptr;  // the call to be launched first, once it has a number
  uint64_t due_start_ = 0;        // the number of the start to be launched first; 0: none has one
  std::atomic<uint64_t> first_ready_{0}, first_due_{0};
};

}  // namespace gpucoll::coll
