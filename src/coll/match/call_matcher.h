// Tells the ranks of an MPI communicator what each of them is about to do, by the ranks' entries on the arrival
// boards (proto/format/board.h says why this is right).
//
// The life of a collective: publish(); look() until it no longer says `waiting`. Where it says `device`, it says so on
// every rank, and read_lines() gives what each rank calls. A blocking collective waits in all_on_device(), and in
// await_decisions() before this rank goes on, unless it has run a collective that holds_everybody(). A nonblocking one
// tells by decide() that this rank has read, and keeps its line while others are undecided().
//
// Thread safety: one caller at a time in each order; look() with a CallWait of its own from any thread.
// Ownership: owns its entries; the communicator's name and description outlive it.
#pragma once
#include <chrono>
#include <vector>

#include "abi/abi.h"
#include "coll/match/arrival_watch.h"
#include "coll/match/board_entries.h"
#include "coll/match/call_id.h"
#include "coll/match/component.h"
#include "coll/match/launch_numbers.h"
#include "coll/match/rank_failures.h"
#include "core/comm/communicator.h"

namespace gpucoll::coll {

class CallMatcher {
 public:
  enum class Verdict { waiting, host, device, refused };

  explicit CallMatcher(const gc_comm_description& description)
      : description_(description),
        entries_(description),
        numbers_(entries_),
        failures_(entries_),
        watch_(entries_, failures_) {}
  CallMatcher(const CallMatcher&) = delete;
  CallMatcher& operator=(const CallMatcher&) = delete;

  // Returns the entries of the ranks on the boards. Call their open() and find_peers() before all else.
  BoardEntries& entries() noexcept { return entries_; }
  // Returns the numbers of the calls in the launch order.
  LaunchNumbers& numbers() noexcept { return numbers_; }
  // Returns what the ranks tell each other of failures.
  RankFailures& failures() noexcept { return failures_; }
  // Returns what looks after ranks that have not come.
  const ArrivalWatch& watch() const noexcept { return watch_; }
  // Returns whether no rank can leave it before every rank has taken part. REQUIRES: some rank has bytes in it; then
  // all have.
  bool holds_everybody(const CallId& place) const noexcept;

  // Publishes a call. `line`: all but `arrival`, for a rank that waits for others; with a `number` of GC_NUMBER_COMING,
  // the rank is ready for the call. REQUIRES but for GC_KIND_HOST: find_peers().
  void publish(const CallId& place, uint32_t kind, const gc_board_line& line);
  // Returns how a call goes, without waiting: `host` as soon as one rank does not wait, or where none has device
  // memory; `refused` as soon as wait.rank refuses it. Errors: a rank calls another function or has failed.
  Result<Verdict> look(CallWait& wait);
  // Reads the lines of all ranks, or of those `among`; the rest of *lines stays. Returns whether they
  // are_alike() (board_line.h) with those that were in *lines. REQUIRES: `device` was the verdict, and decide() has not
  // been called.
  bool read_lines(const CallId& place, std::vector<gc_board_line>* lines, const Component* among = nullptr) const;
  // Returns what tells the communicator from others, equal on all ranks.
  uint64_t name() const noexcept { return entries_.key().word[1]; }
  // Tells the others that this rank has read the lines.
  void decide(const CallId& place) noexcept;
  // Returns a rank that may still need this rank's line; -1: none. REQUIRES: this rank has decided.
  int undecided(const CallId& place);

  // Waits for the verdict, and returns whether it is `device`. A refusal is no error: *refused_by is then the rank that
  // refused, else -1.
  Result<bool> all_on_device(const CallId& place, core::Communicator* runtime, bool has_device_memory, int* refused_by,
                             Component* among = nullptr);
  Status refusal_of(int rank, const CallId& place) const;
  // Refuses a blocking call on this rank. Waits for ranks that are so far behind that lines could be written anew which
  // they have not read.
  Status refuse(const CallId& place);
  // Decides and waits until no rank is undecided(). All ranks call it or none.
  Status await_decisions(const CallId& place, core::Communicator* runtime, Component* among = nullptr);
  // Tell and return how many nonblocking calls from `place` on share a launch. Rank 0 tells it; 0: not yet. Errors:
  // rank 0 has failed.
  void tell_batch_size(const CallId& place, size_t n) noexcept;
  Result<size_t> batch_size(const CallId& place);

 private:
  enum class Seen { not_there, come, gone };
  struct Look {
    Seen seen;
    uint64_t arrival;  // where it has come
    bool failed;       // in this collective or before
  };
  Look look_at(int rank, const CallId& place);
  Look see(int rank, const CallId& place);
  // Returns the kind of memory that a rank comes with, or GC_KIND_HOST.
  Result<uint32_t> kind_of(int rank, const Look& look, const CallId& place) const;
  Status await_arrivals(const CallId& place);
  bool has_decided(int rank, const CallId& place) const noexcept;

  const gc_comm_description& description_;
  BoardEntries entries_;
  LaunchNumbers numbers_;
  RankFailures failures_;
  ArrivalWatch watch_;
};

}  // namespace gpucoll::coll
