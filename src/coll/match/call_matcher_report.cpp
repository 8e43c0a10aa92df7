// Reports who is missing, and where those ranks are, while this rank waits longer than it should.
#include <algorithm>
#include <chrono>
#include <numeric>

#include "base/log.h"
#include "base/params.h"
#include "coll/match/call_matcher.h"

namespace gpucoll::coll {
namespace {

constexpr size_t kMostTold = 8;

std::string number_and_name(uint64_t number, uint32_t order, uint32_t function) {
  return "collective " + std::to_string(number) + ", " + name_of({order, number, function});
}

}  // namespace

// The board's word of its last call in an order; 0: none, or nothing is known of it.
uint64_t CallMatcher::last_call(int rank, uint32_t order) const noexcept {
  const gc_board_entry* const entry = entries_.find(rank);
  uint64_t last = 0;
  if (!entry) return last;
  // Relaxed: it is only told.
  for (const gc_board_line& line : entry->orders[order].lines)
    last = std::max(last, __atomic_load_n(&line.arrival, __ATOMIC_RELAXED));
  return last;
}

// "rank 2 (process 71), whose last was collective 6, MPI_Bcast"; "" for who has come.
std::string CallMatcher::report_of(int rank, const Wait& wait) const {
  if (wait.place.order == kStarts) return entries_.rank_name(rank);
  const uint64_t last = last_call(rank, wait.place.order), number = gc_arrival_number(last);
  if (number >= wait.place.number) return "";
  if (number == 0) return entries_.rank_name(rank) + ", which has not called any";
  return entries_.rank_name(rank) + ", whose last was " +
         number_and_name(number, wait.place.order, gc_arrival_function(last));
}

// Once for all ranks that wait alike: the first of them tells it.
void CallMatcher::report(Wait& wait) const {
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
