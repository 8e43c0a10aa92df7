#include "coll/match/rank_failures.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace gpucoll::coll {

void RankFailures::fail(const CallId& place, const gc_comm& comm, const Status& why) noexcept {
  if (failed()) return;
  gc_board_entry& own = entries_.own();
  // Without memory for it the words alone have to do.
  contained([&]() -> Status {
    std::snprintf(own.cause, sizeof own.cause, "%s", told_of(why).c_str());
    return {};
  }).ignore();
  for (uint32_t order = 0; order < GC_ORDERS; ++order) {
    const uint64_t first = order == place.order ? place.number : comm.orders[order].sequence + 1;
    __atomic_store_n(&own.orders[order].failed, first, __ATOMIC_RELEASE);  // partner: look_at of the peers
  }
  entries_.tell({{own.cause, sizeof own.cause},
                 {&own.orders[0].failed, 8},
                 {&own.orders[1].failed, 8},
                 {&own.orders[2].failed, 8}});
}

void RankFailures::fail_quietly(const CallId& place, const gc_comm& comm, const Status& why) noexcept {
  if (failed()) return;
  tell_ending(GC_ENDING_QUIETLY);
  fail(place, comm, why);
}

void RankFailures::end_mpi() noexcept {
  if (ending(description_.rank)) return;
  tell_ending(GC_ENDING_MPI);
}

void RankFailures::tell_ending(uint64_t how) noexcept {
  uint64_t& word = entries_.own().ending;
  __atomic_store_n(&word, how, __ATOMIC_RELEASE);  // partner: ending() of the peers
  entries_.tell({{&word, sizeof word}});
}

uint64_t RankFailures::ending(int rank) const noexcept {
  if (rank == description_.rank) return __atomic_load_n(&entries_.own().ending, __ATOMIC_ACQUIRE);
  const PeerProcess* const peer = entries_.knows_peers() ? entries_.peer(rank) : nullptr;
  if (!peer) return 0;
  const gc_board_entry* const entry = entries_.find(rank);
  const uint64_t told = entry ? __atomic_load_n(&entry->ending, __ATOMIC_ACQUIRE) : 0;
  return told || !peer->board().has_ended() ? told : uint64_t{GC_ENDING_MPI};
}

bool RankFailures::any_ending() const noexcept {
  for (int r = 0; r < description_.size; ++r)
    if (ending(r)) return true;
  return false;
}

std::string RankFailures::self() const {
  return "rank " + std::to_string(description_.rank) + " (process " + std::to_string(getpid()) + ")";
}

bool RankFailures::failed() const noexcept {
  return __atomic_load_n(&entries_.own().orders[0].failed, __ATOMIC_RELAXED) != 0;
}

Status RankFailures::usable() const {
  if (!failed()) return {};
  return Status::error(Code::remote, "%s cannot be used any more, as a collective on it has failed: %s",
                       description_.name, entries_.own().cause);
}

Status RankFailures::failure_of(int rank) const {
  const gc_board_entry* const entry = entries_.find(rank);
  if (entry && entry->cause[0])
    return Status::error(Code::remote, "%.*s", static_cast<int>(sizeof entry->cause), entry->cause).blaming();
  return Status::error(Code::remote, "%s has failed in a collective on %s; its own message says why",
                       entries_.rank_name(rank).c_str(), description_.name);
}

Status RankFailures::told(int rank) const {
  const gc_board_entry* const entry = entries_.find(rank);
  const bool has_failed = entry && __atomic_load_n(&entry->orders[0].failed, __ATOMIC_ACQUIRE) != 0;
  return has_failed ? failure_of(rank) : Status();
}

Status RankFailures::usable(int rank) const {
  const uint64_t failed = __atomic_load_n(&entries_.of(rank).orders[0].failed, __ATOMIC_ACQUIRE);
  return failed && !entries_.has_left(rank) ? failure_of(rank) : Status();
}

Status RankFailures::others(bool may_end) const {
  for (int r = 0; r < description_.size; ++r) {
    if (r == description_.rank) continue;
    if (!may_end || ending(r) != GC_ENDING_QUIETLY) GC_TRY(usable(r));
    if (!entries_.alive(r))
      return died_or_failed(
          r, Status::error(Code::remote, "%s died: %s cannot go on", entries_.rank_name(r).c_str(), description_.name)
                 .blaming());
  }
  return {};
}

// The one that has not run for longest.
Status RankFailures::stopped(std::chrono::steady_clock::time_point since) const {
  std::chrono::nanoseconds longest(0);
  int who = -1;
  for (int r = 0; r < description_.size; ++r) {
    if (r == description_.rank) continue;
    const PeerProcess* const peer = entries_.peer(r);
    const auto silence = peer ? core::Heart::silence(peer->board().pulse(), since) : std::chrono::nanoseconds(0);
    if (silence > longest) who = r;
    longest = std::max(longest, silence);
  }
  if (who < 0) return {};
  return core::stopped(entries_.rank_name(who), longest, description_.rank, static_cast<long long>(params().timeout),
                       entries_.remote(who) != nullptr);
}

Status RankFailures::in_mpi(int rank, const CallId& place) const {
  if (rank == description_.rank) return {};
  if (!entries_.board_of(rank).has_ended()) {
    if (RemoteProcess* const process = entries_.remote(rank)) process->ask_end();
    return {};
  }
  return Status::error(Code::remote,
                       "%s has called MPI_Finalize, but rank %d waits for it in %s on %s: all ranks must call the same "
                       "collectives, and complete them",
                       entries_.rank_name(rank).c_str(), description_.rank, name_of(place), description_.name);
}

}  // namespace gpucoll::coll
