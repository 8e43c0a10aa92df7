#include "coll/match/arrival_watch.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/mutant.h"
#include "base/params.h"

namespace gpucoll::coll {
namespace {

constexpr size_t kMostTold = 8;

std::string number_and_name(uint64_t number, uint32_t order, uint32_t function) {
  return "collective " + std::to_string(number) + ", " + name_of({order, number, function});
}

}  // namespace

Status ArrivalWatch::still_comes(CallWait& wait) const {
  if (wait.runtime && wait.runtime->fault().raised()) return wait.runtime->fault().status();
  if (wait.rank == description_.rank || wait.rank >= description_.size) return {};
  if (!entries_.alive(wait.rank))
    return failures_.died_or_failed(
        wait.rank,
        Status::error(Code::remote, "%s died%s before it came to collective %llu of %s, %s",
                      entries_.rank_name(wait.rank).c_str(),
                      entries_.remote(wait.rank) ? ", or its host cannot be reached any more," : "",
                      static_cast<unsigned long long>(wait.place.number), description_.name, name_of(wait.place))
            .blaming());
  // It may have come before it ended: only if the next look does not see it either.
  if (Status in = failures_.in_mpi(wait.rank, wait.place); !in) {
    if (std::exchange(wait.ended, wait.rank) == wait.rank) return in;
    in.ignore();
  }
  return {};
}

// All ranks begin a communicator's calls in one order, so none can have begun a nonblocking one behind those of this
// rank before it comes to the blocking one. Only one with device memory tells so: Open MPI begins calls by itself, on
// host memory, while it makes progress (MPI_Comm_idup). A rank on another node may have come, and not have told.
Status ArrivalWatch::check_form(int rank, const CallId& place) const {
  if (place.begun_before == CallId::kNoCount || entries_.remote(rank) || gc_mutant(597)) return {};
  const gc_board_entry* const entry = entries_.find(rank);
  if (!entry) return {};
  const uint64_t next = place.begun_before + 1;
  // In this order: what it did before the first is seen by the second.
  const uint64_t begun =
      __atomic_load_n(&entry->orders[GC_ORDER_NONBLOCKING].lines[next % GC_BOARD_LINES].arrival, __ATOMIC_ACQUIRE);
  const uint64_t come =
      __atomic_load_n(&entry->orders[place.order].lines[place.number % GC_BOARD_LINES].arrival, __ATOMIC_ACQUIRE);
  if (gc_arrival_number(begun) != next || gc_arrival_kind(begun) != GC_KIND_DEVICE) return {};
  if (gc_arrival_number(come) >= place.number || __atomic_load_n(&entry->left, __ATOMIC_ACQUIRE)) return {};
  return Status::error(
      Code::invalid_usage,
      "on %s rank %d calls %s, but %s calls %s: a blocking collective does not match a nonblocking one",
      description_.name, description_.rank, name_of(place), entries_.rank_name(rank).c_str(),
      name_of({GC_ORDER_NONBLOCKING, next, gc_arrival_function(begun)}));
}

Status ArrivalWatch::look_around(CallWait& wait) const {
  GC_TRY(still_comes(wait));
  if (wait.rank == description_.rank || wait.rank >= description_.size) return {};
  GC_TRY(check_form(wait.rank, wait.place));
  report(wait);
  return failures_.in_time(wait.start, std::chrono::nanoseconds(0), [&] {
    return Status::error(Code::timed_out, "rank %d waited %lld s (parameter timeout) in %s on %s: %s has not come",
                         description_.rank, static_cast<long long>(params().timeout), name_of(wait.place),
                         description_.name, entries_.rank_name(wait.rank).c_str());
  });
}

// ---- what is reported ----

// The board's word of its last call in an order; 0: none, or nothing is known of it.
uint64_t ArrivalWatch::last_call(int rank, uint32_t order) const noexcept {
  const gc_board_entry* const entry = entries_.find(rank);
  uint64_t last = 0;
  if (!entry) return last;
  // Relaxed: it is only told.
  for (const gc_board_line& line : entry->orders[order].lines)
    last = std::max(last, __atomic_load_n(&line.arrival, __ATOMIC_RELAXED));
  return last;
}

// "rank 2 (process 71), whose last was collective 6, MPI_Bcast"; "" for who has come.
std::string ArrivalWatch::report_of(int rank, const CallWait& wait) const {
  if (wait.place.order == kStarts) return entries_.rank_name(rank);
  const uint64_t last = last_call(rank, wait.place.order), number = gc_arrival_number(last);
  if (number >= wait.place.number) return "";
  if (number == 0) return entries_.rank_name(rank) + ", which has not called any";
  return entries_.rank_name(rank) + ", whose last was " +
         number_and_name(number, wait.place.order, gc_arrival_function(last));
}

// Once for all ranks that wait alike: the first of them tells it.
void ArrivalWatch::report(CallWait& wait) const {
  const auto waited = std::chrono::steady_clock::now() - wait.start;
  if (wait.told || !params().report_after || waited < std::chrono::seconds(params().report_after)) return;
  wait.told = true;
  // For starts, and among neighbours, this rank does not know who else is missing.
  const bool starts = wait.place.order == kStarts, all = !starts && !wait.among;
  if (starts && description_.rank != (wait.rank == 0)) return;
  std::vector<int> ranks(all ? static_cast<size_t>(description_.size) : 1, wait.rank);
  if (all) std::iota(ranks.begin(), ranks.end(), 0);
  std::string text;
  size_t missing = 0;
  for (const int rank : ranks) {
    const std::string one = rank == description_.rank ? "" : report_of(rank, wait);
    if (one.empty() && rank < description_.rank) return;
    if (!one.empty() && ++missing <= kMostTold) text += (text.empty() ? "" : "; ") + one;
  }
  if (missing == 0) return;
  if (missing > kMostTold) text += "; and " + std::to_string(missing - kMostTold) + " more";
  const CallId& place = wait.place;
  const std::string here = starts ? name_of(place) : number_and_name(place.number, place.order, place.function);
  log::write(log::Level::warn, "rank %d has waited %lld s (parameter report_after) in %s, of %s, for %s",
             description_.rank, static_cast<long long>(params().report_after), here.c_str(), description_.name,
             text.c_str());
}

}  // namespace gpucoll::coll
