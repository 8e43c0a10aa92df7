// Looks around while this rank waits for others to come to a call: whether they still can come, whether they come in
// time, and where they are meanwhile.
//
// Thread safety: any thread, with a CallWait of its own. Ownership: borrows all that it is given.
#pragma once
#include <chrono>
#include <cstddef>
#include <string>

#include "coll/match/board_entries.h"
#include "coll/match/call_id.h"
#include "coll/match/component.h"
#include "coll/match/rank_failures.h"
#include "core/comm/communicator.h"

namespace gpucoll::coll {

// One wait for the other ranks, rank after rank.
struct CallWait {
  CallId place;
  core::Communicator* runtime;  // may be null; its fault ends the wait
  bool any_device = true;       // this rank, or one that has come, has device memory
  int rank = 0;                 // the rank that is waited for
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  Component* among = nullptr;  // null: all ranks take part
  size_t at = 0;               // place in the ranks of `among`
  int ended = -1;              // a rank that has ended MPI, perhaps after everything that was waited for
  bool told = false;           // a warning has said that it takes long

  // Begins a wait for all ranks, or for those `among`.
  static CallWait among_ranks(const CallId& place, core::Communicator* runtime,
                              std::chrono::steady_clock::time_point since, Component* among) {
    CallWait wait = {.place = place, .runtime = runtime, .start = since, .among = among};
    if (among) wait.rank = among->ranks.front();
    return wait;
  }
  // Waits for the next rank from now on: behind the last one `rank` is n_ranks.
  void go_to_next(int n_ranks) {
    if (!among)
      ++rank;
    else
      rank = ++at < among->ranks.size() ? among->ranks[at] : n_ranks;
  }
};

class ArrivalWatch {
 public:
  ArrivalWatch(const BoardEntries& entries, const RankFailures& failures)
      : description_(entries.description()), entries_(entries), failures_(failures) {}

  // Returns what keeps wait.rank from ever coming, or this one from waiting: that rank is dead, or had ended MPI
  // already when the same CallWait was asked before, or `runtime` has failed.
  Status still_comes(CallWait& wait) const;
  // Returns what still_comes() does, or that wait.rank has begun a nonblocking call instead of this blocking one, or
  // does not come in time. Warns once where it takes long.
  Status look_around(CallWait& wait) const;

 private:
  Status check_form(int rank, const CallId& place) const;
  void report(CallWait& wait) const;
  uint64_t last_call(int rank, uint32_t order) const noexcept;
  std::string report_of(int rank, const CallWait& wait) const;

  const gc_comm_description& description_;
  const BoardEntries& entries_;
  const RankFailures& failures_;
};

}  // namespace gpucoll::coll
