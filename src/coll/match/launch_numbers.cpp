#include "coll/match/launch_numbers.h"

#include <algorithm>

namespace gpucoll::coll {
namespace {

bool has_come(const gc_board_line& line, const CallId& place) {
  return gc_arrival_number(__atomic_load_n(&line.arrival, __ATOMIC_SEQ_CST)) == place.number;  // partner: publish
}

}  // namespace

void LaunchNumbers::get_ready(const CallId& place) noexcept {
  // Partner: is_ready of the peers, which see it before the number is taken.
  gc_board_line& mine = entries_.own_line(place);
  __atomic_exchange_n(&mine.number, uint64_t{GC_NUMBER_COMING}, __ATOMIC_SEQ_CST);
}

uint64_t LaunchNumbers::give_number(const CallId& place) noexcept {
  const uint64_t number = MpiProcess::instance().board().take_number();
  gc_board_line& mine = entries_.own_line(place);
  __atomic_store_n(&mine.number, number, __ATOMIC_RELEASE);  // partner: number_of of the peers
  entries_.tell_line(place);
  return number;
}

uint64_t LaunchNumbers::number_of(const CallId& place, int* lacking, const Component* among) const noexcept {
  uint64_t last = 0;
  const int n = among ? static_cast<int>(among->ranks.size()) : entries_.description().size;
  for (int i = 0; i < n; ++i) {
    const int r = among ? among->ranks[static_cast<size_t>(i)] : i;
    const gc_board_line& line = entries_.line(r, place);
    *lacking = r;
    // The others have come. This rank's line may still be that of an earlier call (BlockingOrder::enter).
    if (r == entries_.description().rank && !has_come(line, place)) return 0;
    const uint64_t number = __atomic_load_n(&line.number, __ATOMIC_ACQUIRE);  // partner: give_number of the peers
    if (number <= GC_NUMBER_COMING) return 0;
    last = std::max(last, number);
  }
  MpiProcess::instance().board().raise_number(last);
  return last;
}

bool LaunchNumbers::is_ready(int rank, const CallId& place) const noexcept {
  const gc_board_entry* entry = rank == entries_.description().rank ? &entries_.own() : entries_.known(rank);
  if (!entry) entry = entries_.find(rank);
  return entry && core::is_ready(entry->orders[place.order].lines[place.number % GC_BOARD_LINES], place.number);
}

// One rank is enough: the greatest number counts. Ranks of this node answer at once.
bool LaunchNumbers::puts_behind(const CallId& place, uint64_t number, const Component* among) const noexcept {
  const gc_board_line& mine = entries_.own_line(place);
  if (__atomic_load_n(&mine.number, __ATOMIC_RELAXED) > number) return true;
  const int n = among ? static_cast<int>(among->ranks.size()) : entries_.description().size;
  for (const bool far : {false, true})
    for (int i = 0; i < n && (!far || !entries_.remotes().empty()); ++i) {
      const int r = among ? among->ranks[static_cast<size_t>(i)] : i;
      if (far != (entries_.remote(r) != nullptr) || is_ready(r, place)) continue;
      if (!far) {
        entries_.board_of(r).raise_number(number);
        if (!is_ready(r, place)) return true;
        continue;
      }
      const auto its = entries_.remote(r)->raise(entries_.key(), place.order, place.number, number);
      if (!its) return false;
      if (*its == RemoteProcess::Place::behind) return true;
    }
  return false;
}

bool LaunchNumbers::puts_starts_behind(uint64_t number, uint64_t read) const noexcept {
  // Partner: PersistentSchedule::publish_steps() of rank 0.
  const auto none_more = [&] { return __atomic_load_n(&entries_.of(0).starts.scheduled, __ATOMIC_SEQ_CST) <= read; };
  if (RemoteProcess* const process = entries_.remote(0))
    return none_more() &&
           process->raise(entries_.key(), proto::kBoardStarts, read, number) == RemoteProcess::Place::behind &&
           none_more();
  entries_.board_of(0).raise_number(number);  // in this order
  return none_more();
}

bool LaunchNumbers::catches_up(const CallId* place) const noexcept {
  uint64_t last = 0;
  bool all = true;
  for (RemoteProcess* const process : entries_.remotes()) {
    const auto number = process->ask_number(entries_.key());
    all &= number.has_value();
    last = std::max(last, number.value_or(0));
  }
  if (!all) return false;
  for (RemoteProcess* const process : entries_.remotes()) process->forget_number(entries_.key());
  for (int r = 0; entries_.knows_peers() && r < entries_.description().size; ++r) {
    if (r == entries_.description().rank || entries_.remote(r)) continue;
    const gc_board_entry* const entry = entries_.known(r);
    if (entry && place) {
      const gc_board_line& line = entry->orders[place->order].lines[place->number % GC_BOARD_LINES];
      if (has_come(line, *place) && __atomic_load_n(&line.number, __ATOMIC_SEQ_CST) == GC_NUMBER_COMING &&
          entries_.alive(r))
        return false;
    }
    last = std::max(last, entries_.board_of(r).last_number());
  }
  MpiProcess::instance().board().raise_number(last);
  return true;
}

}  // namespace gpucoll::coll
