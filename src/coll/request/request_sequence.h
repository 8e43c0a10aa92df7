// Keeps the requests of one MPI communicator in the order of their calls, publishes them on the board as far as their
// lines are free, and agrees with the other ranks on how many of the first ones share a launch (docs/adr/0020).
//
// Thread safety: any() from any thread; else one caller at a time. Ownership: borrows all that it is given.
// Invariant: the requests that are published are the first ones.
#pragma once
#include <atomic>
#include <cstddef>
#include <deque>
#include <utility>
#include <vector>

#include "coll/request/line_window.h"
#include "coll/request/request.h"
#include "coll/request/request_order.h"

namespace gpucoll::coll {

class RequestSequence {
 public:
  RequestSequence(const gc_comm_description& description, CallMatcher& matcher, RequestOrder& order)
      : description_(description), matcher_(matcher), order_(order), window_(matcher) {}

  bool any() const noexcept { return n_queued_.load() != 0; }
  bool empty() const noexcept { return queue_.empty(); }
  Request& first() const { return *queue_.front(); }
  bool is_first(const Request& call) const { return !empty() && &call == &first(); }
  // Returns whether the application waits for any of the requests: a program need not start what it makes.
  bool is_awaited() const noexcept;
  void push(Request& call);
  // Takes the first one out. The next one waits from now on.
  void pop();
  // Takes all out, each by end(request).
  template <class End>
  void end_all(const End& end) {
    for (Request* call : std::exchange(queue_, {})) end(*call);
    n_published_ = 0;
    look();
  }
  // Looks anew at the first one.
  void look();

  // Publishes those whose lines are free.
  void publish_more();
  // Looks after the ranks that keep the first request from being published: what has been launched goes on, but these
  // ranks may have died.
  Status look_after_readers(Request& call);
  LineWindow& window() noexcept { return window_; }

  // Returns whether all ranks know by now how many from the first one on share a launch. Then these are `agreed`, and
  // have what all ranks call; the others may write their lines anew. Errors: a rank does not come.
  Result<bool> agree();
  // Returns the requests that share the first one's launch, as far as `goes_along()` says so.
  template <class GoesAlong>
  Status find_agreed(const GoesAlong& goes_along, std::vector<Request*>* all) const {
    all->assign(1, queue_.front());
    for (size_t i = 1; i < queue_.size() && queue_[i]->stage == Request::Stage::agreed; ++i) {
      GC_TRY_AS(const bool goes, goes_along(*queue_[i]));
      if (!goes) break;
      all->push_back(queue_[i]);
    }
    return {};
  }

 private:
  uint32_t flags_of(size_t at) const;
  void publish(Request& call, uint32_t flags);
  bool joins(size_t at) const;
  bool joins_everywhere(size_t at);
  Result<size_t> find_batch_size();
  Result<Request*> find_late(size_t n);

  const gc_comm_description& description_;
  CallMatcher& matcher_;
  RequestOrder& order_;
  LineWindow window_;
  std::deque<Request*> queue_;
  std::atomic<size_t> n_queued_{0};  // of queue_
  size_t n_published_ = 0;
};

}  // namespace gpucoll::coll
