// How the ranks of an MPI communicator, or some of them, make its runtime communicator: an allgather on the arrival
// board, so that it needs nothing of MPI and may run on any thread.
//
// Thread safety: one caller at a time, once in the life of a communicator for each meeting. Ownership: borrows all that
// it is given.
#pragma once
#include <vector>

#include "coll/match/call_matcher.h"
#include "net/bootstrap/bootstrap.h"

namespace gpucoll::coll {

class BoardBootstrap final : public net::Bootstrap {
 public:
  // meeting: GC_MEETING_*. place: the collective that every rank has come to with device memory. idle: called while it
  // waits, may be null. ranks: that take part, ascending, this one among them; empty: all.
  BoardBootstrap(const gc_comm_description& description, CallMatcher& matcher, uint32_t meeting, const CallId& place,
                 void (*idle)(), std::vector<int> ranks = {});
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(ranks_.size()); }
  Status allgather(const void* mine, void* all, size_t bytes) override;
  Status look() override;

 private:
  void post(const void* mine, size_t bytes) noexcept;
  // Returns what `rank` has put there for the present exchange; null until it has.
  const uint8_t* part_of(int rank) const noexcept;
  Result<const uint8_t*> await(CallWait& wait);
  CallMatcher& matcher_;
  BoardEntries& entries_;
  uint32_t meeting_;
  CallId place_;
  void (*idle_)();
  std::vector<int> ranks_;
  int rank_;
  uint64_t exchanges_ = 0;       // so far (proto/format/board.h)
  std::vector<CallWait> looks_;  // look()'s, one for each of `ranks`
};

}  // namespace gpucoll::coll
