// Agrees with the other ranks on the numbers of a communicator's calls in the launch order of several communicators
// (docs/design/launch-order.md).
//
// Thread safety: get_ready() and give_number() one caller at a time in each order; the others any thread. Ownership:
// borrows the entries.
#pragma once
#include <cstdint>

#include "coll/match/board_entries.h"
#include "coll/match/component.h"

namespace gpucoll::coll {

class LaunchNumbers {
 public:
  explicit LaunchNumbers(const BoardEntries& entries) : entries_(entries) {}

  // Makes this rank ready for a call that it has published without being so.
  void get_ready(const CallId& place) noexcept;
  // Takes this rank's number for a call, tells it and returns it. Call it right after the rank got ready.
  uint64_t give_number(const CallId& place) noexcept;
  // Returns the call's number in the launch order: equal on all ranks. 0: *lacking has none yet. REQUIRES: as
  // CallMatcher::read_lines(), but for this rank's own publish(), which another thread may be about to do.
  uint64_t number_of(const CallId& place, int* lacking, const Component* among = nullptr) const noexcept;
  // Sees to it that a call for which this rank is ready gets a number greater than `number`. Returns false where all
  // ranks are ready: then it has a number, or is about to.
  bool puts_behind(const CallId& place, uint64_t number, const Component* among = nullptr) const noexcept;
  // Answers the same about steps of the schedule behind the first `read` ones.
  bool puts_starts_behind(uint64_t number, uint64_t read) const noexcept;
  // Lets this process's next numbers be greater than that of the blocking call `place` (null: none is under way), which
  // this rank may have launched without learning it, and than those of all before. Returns false where a rank is about
  // to tell its number.
  bool catches_up(const CallId* place) const noexcept;

 private:
  bool is_ready(int rank, const CallId& place) const noexcept;

  const BoardEntries& entries_;
};

}  // namespace gpucoll::coll
