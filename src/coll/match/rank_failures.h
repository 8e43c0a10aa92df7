// Tells the other ranks of a communicator that this one has failed or ends MPI, and knows which of them have failed,
// died, ended MPI or stopped running.
//
// Thread safety: fail(), fail_quietly() and end_mpi() one caller at a time; the others any thread. Ownership: borrows
// the entries.
#pragma once
#include <chrono>
#include <string>

#include "abi/abi.h"
#include "base/params.h"
#include "coll/match/board_entries.h"
#include "core/comm/communicator.h"

namespace gpucoll::coll {

class RankFailures {
 public:
  explicit RankFailures(const BoardEntries& entries) : description_(entries.description()), entries_(entries) {}

  // Ends this rank's part from this collective on, and from the next one of every other order: it can no longer agree
  // with the others on what to do, so nobody must wait for it. `comm`: the communicator that the place is of. `why`
  // tells the others who is at fault.
  void fail(const CallId& place, const gc_comm& comm, const Status& why) noexcept;
  // Fails as fail() does because MPI is being finalized. Nobody waits for such a call then, so no rank reports an
  // error.
  void fail_quietly(const CallId& place, const gc_comm& comm, const Status& why) noexcept;
  bool failed() const noexcept;
  // Tells that MPI is being finalized on this rank; any_ending() returns whether any rank has said so, of itself or of
  // others.
  void end_mpi() noexcept;
  bool any_ending() const noexcept;
  // Returns what the others say of a failure of this rank.
  std::string told_of(const Status& why) const { return core::given_up(self(), why).what(); }
  // Returns remote where it has failed, else ok.
  Status usable() const;

  // Returns the failure of the first rank that has failed or died. may_end: quiet failures are none.
  Status others(bool may_end = false) const;

  // Returns ok while `start` is not longer ago than the parameter timeout and `more`. Errors: timed_out, for what
  // `late()` says, unless some rank does not run.
  template <class Late>
  Status in_time(std::chrono::steady_clock::time_point start, std::chrono::nanoseconds more, const Late& late) const {
    const auto waited = core::Heart::waited(start);
    if (!params().timeout || waited <= std::chrono::seconds(params().timeout) + more) return {};
    GC_TRY(stopped(start));
    return late().blaming();
  }
  // Errors: remote, where that rank has ended MPI. Then everything that it did before can be seen.
  Status in_mpi(int rank, const CallId& place) const;
  // Errors: remote, where that rank has failed.
  Status usable(int rank) const;
  // Returns how that rank has failed. REQUIRES: it has.
  Status failure_of(int rank) const;
  // Returns `died`, of a rank whose process has ended, unless that rank has told a failure before. REQUIRES: as
  // usable().
  Status died_or_failed(int rank, Status died) const {
    GC_TRY(told(rank));
    return died;
  }

 private:
  std::string self() const;
  void tell_ending(uint64_t how) noexcept;
  uint64_t ending(int rank) const noexcept;
  // Checks as usable(rank) does, at any time.
  Status told(int rank) const;
  Status stopped(std::chrono::steady_clock::time_point since) const;

  const gc_comm_description& description_;
  const BoardEntries& entries_;
};

}  // namespace gpucoll::coll
