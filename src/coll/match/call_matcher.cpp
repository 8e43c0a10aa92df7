#include "coll/match/call_matcher.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>

#include "base/mutant.h"
#include "base/observe/counters.h"
#include "base/observe/trace.h"
#include "coll/match/board_line.h"

namespace gpucoll::coll {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kLooksPerCheck = 4096;

}  // namespace

// Within a group of an intercommunicator nobody waits for the others.
bool CallMatcher::holds_everybody(const CallId& place) const noexcept {
  const uint32_t function = place.function;
  return !description_.two_groups && place.order == GC_ORDER_BLOCKING &&
         (function == GC_FUNCTION_allreduce || function == GC_FUNCTION_allgather || function == GC_FUNCTION_alltoall ||
          function == GC_FUNCTION_reduce_scatter_block);
}

void CallMatcher::publish(const CallId& place, uint32_t kind, const gc_board_line& line) {
  gc_board_line& mine = entries_.own_line(place);
  const uint64_t arrival = gc_arrival(place.number, place.function, kind);
  if (kind != GC_KIND_HOST) {
    // All but `arrival`, which others may be looking at.
    constexpr size_t kRest = offsetof(gc_board_line, count);
    std::memcpy(reinterpret_cast<char*>(&mine) + kRest, reinterpret_cast<const char*>(&line) + kRest,
                sizeof line - kRest);
    tell_batch_size(place, 0);
  }
  // Partner: look_at of the peers. Where give_number() follows, others see it before the number is taken.
  if (kind == GC_KIND_HOST)
    __atomic_store_n(&mine.arrival, arrival, __ATOMIC_RELEASE);
  else
    __atomic_exchange_n(&mine.arrival, arrival, __ATOMIC_SEQ_CST);
  if (kind == GC_KIND_HOST)
    entries_.tell({{&mine.arrival, sizeof mine.arrival}});
  else if (line.number == GC_NUMBER_NONE)
    entries_.tell_line(place);  // else once it has its number
}

CallMatcher::Look CallMatcher::look_at(int rank, const CallId& place) {
  const Look seen = see(rank, place);
  if (!entries_.remote(rank) || seen.seen != Seen::not_there || seen.failed || gc_mutant(181)) return seen;
  entries_.ask(rank, place);
  return seen;
}

CallMatcher::Look CallMatcher::see(int rank, const CallId& place) {
  const uint64_t number = place.number;
  const gc_board_entry* const entry = entries_.look_up(rank);
  if (!entry) return {entries_.board_of(rank).is_gone(entries_.key()) ? Seen::gone : Seen::not_there, 0, false};
  const gc_board_order& order = entry->orders[place.order];
  // Acquire: whoever sees what was stored after the entry was taken for another communicator sees that it was taken.
  const uint64_t failed = __atomic_load_n(&order.failed, __ATOMIC_ACQUIRE);
  const bool left = __atomic_load_n(&entry->left, __ATOMIC_ACQUIRE) != 0;
  const uint64_t arrival = __atomic_load_n(&order.lines[number % GC_BOARD_LINES].arrival, __ATOMIC_ACQUIRE);
  if (__atomic_load_n(&entry->key[1], __ATOMIC_RELAXED) != entries_.key().word[1]) return {Seen::gone, 0, false};
  const bool has_failed = failed != 0 && failed <= number;
  if (gc_arrival_number(arrival) == number) return {Seen::come, arrival, has_failed};
  return {left || gc_arrival_number(arrival) > number ? Seen::gone : Seen::not_there, 0, has_failed};
}

Result<uint32_t> CallMatcher::kind_of(int rank, const Look& look, const CallId& place) const {
  const CallId theirs = {place.order, place.number, gc_arrival_function(look.arrival)};
  if (look.seen == Seen::come && theirs.function != place.function)
    return Status::error(Code::invalid_usage, "collective %llu of %s: rank %d calls %s, but %s calls %s",
                         static_cast<unsigned long long>(place.number), description_.name, description_.rank,
                         name_of(place), entries_.rank_name(rank).c_str(), name_of(theirs));
  if (look.failed) return failures_.failure_of(rank);
  if (look.seen == Seen::gone && holds_everybody(place))
    return Status::error(Code::invalid_usage,
                         "%s has gone on from collective %llu of %s, where this rank %d calls %s: the ranks call "
                         "different collectives",
                         entries_.rank_name(rank).c_str(), static_cast<unsigned long long>(place.number),
                         description_.name, description_.rank, name_of(place));
  return look.seen == Seen::come ? gc_arrival_kind(look.arrival) : uint32_t{GC_KIND_HOST};
}

Result<CallMatcher::Verdict> CallMatcher::look(CallWait& wait) {
  for (; wait.rank < description_.size; wait.go_to_next(description_.size)) {
    if (wait.rank == description_.rank) continue;
    const Look seen = look_at(wait.rank, wait.place);
    if (seen.seen == Seen::not_there && !seen.failed) return Verdict::waiting;
    GC_TRY_AS(const uint32_t kind, kind_of(wait.rank, seen, wait.place));
    if (kind == GC_KIND_HOST) return Verdict::host;
    if (kind == GC_KIND_REFUSED) return Verdict::refused;
    wait.any_device |= kind == GC_KIND_DEVICE;
    if (wait.among && !wait.among->complete) add_neighbors_of(entries_, wait.rank, wait.among);
  }
  if (wait.among) wait.among->complete = true;
  return wait.any_device ? Verdict::device : Verdict::host;
}

// ---- deciding ----

Result<bool> CallMatcher::all_on_device(const CallId& place, core::Communicator* runtime, bool has_device_memory,
                                        int* refused_by, Component* among) {
  CallWait wait = CallWait::among_ranks(place, runtime, {}, among);
  wait.any_device = has_device_memory;
  *refused_by = -1;
  trace::Waiting waiting(name(), place.number);
  for (int looks = 1;; ++looks) {
    GC_TRY_AS(const Verdict verdict, look(wait));
    if (verdict == Verdict::refused) *refused_by = wait.rank;
    if (verdict != Verdict::waiting) return verdict == Verdict::device;
    if (looks == 1) {
      count(Counter::calls_waited);
      wait.start = Clock::now();  // where all have come, the clock is not read
    }
    waiting.on_rank(wait.rank);
    description_.calls->progress();
    entries_.look_for_news(wait.rank);
    if (looks % kLooksPerCheck == 0) GC_TRY(watch_.look_around(wait));
  }
}

Status CallMatcher::refusal_of(int rank, const CallId& place) const {
  return Status::error(Code::remote, "%s has refused %s on %s for its arguments; its own message says why",
                       entries_.rank_name(rank).c_str(), name_of(place), description_.name);
}

// Nobody waits for all in such a call, so this rank does where it could come too far ahead. Neighbours count apart from
// others; who they are may not be known.
Status CallMatcher::refuse(const CallId& place) {
  constexpr uint64_t kMostAhead = GC_BOARD_LINES / 2;
  const bool may_wait = place.order == GC_ORDER_BLOCKING && place.number > kMostAhead;
  if (may_wait) GC_TRY(await_arrivals({place.order, place.number - kMostAhead, place.function}));
  publish(place, GC_KIND_REFUSED, {});
  return {};
}

Status CallMatcher::await_arrivals(const CallId& place) {
  CallWait wait = {place, nullptr};
  for (; wait.rank < description_.size; ++wait.rank) {
    if (wait.rank == description_.rank) continue;
    for (int looks = 1;; ++looks) {
      const Look seen = look_at(wait.rank, place);
      if (seen.failed) return failures_.failure_of(wait.rank);
      if (seen.seen != Seen::not_there) break;
      description_.calls->progress();
      if (looks % kLooksPerCheck == 0) GC_TRY(watch_.look_around(wait));
    }
  }
  return {};
}

// All have come with device memory: nobody writes the lines before everybody has decided.
bool CallMatcher::read_lines(const CallId& place, std::vector<gc_board_line>* lines, const Component* among) const {
  lines->resize(static_cast<size_t>(description_.size));
  bool as_before = true;
  for (int r = 0; r < description_.size; ++r) {
    if (among && std::find(among->ranks.begin(), among->ranks.end(), r) == among->ranks.end()) continue;
    const gc_board_line& line = entries_.line(r, place);
    gc_board_line& read = (*lines)[static_cast<size_t>(r)];
    as_before = as_before && are_alike(line, read);
    read = line;
  }
  return as_before;
}

// ---- what has been read ----

void CallMatcher::decide(const CallId& place) noexcept {
  // Partner: has_decided of the peers.
  uint64_t& decided = entries_.own().orders[place.order].decided;
  __atomic_store_n(&decided, place.number, __ATOMIC_RELEASE);
  entries_.tell({{&decided, sizeof decided}});
}

void CallMatcher::tell_batch_size(const CallId& place, size_t n) noexcept {
  uint8_t& word = entries_.own().orders[place.order].batch_size[place.number % GC_BOARD_LINES];
  __atomic_store_n(&word, static_cast<uint8_t>(n), __ATOMIC_RELEASE);  // partner: together of the peers
  const gc_board_order& order = entries_.own().orders[place.order];
  if (n) entries_.tell({{order.batch_size, sizeof order.batch_size}});  // else with the line
}

// Rank 0 keeps the line until this rank has decided.
Result<size_t> CallMatcher::batch_size(const CallId& place) {
  if (look_at(0, place).failed) return failures_.failure_of(0);
  const uint8_t& word = entries_.of(0).orders[place.order].batch_size[place.number % GC_BOARD_LINES];
  return size_t{__atomic_load_n(&word, __ATOMIC_ACQUIRE)};
}

bool CallMatcher::has_decided(int rank, const CallId& place) const noexcept {
  const gc_board_order& order = entries_.of(rank).orders[place.order];
  // A rank that has freed the communicator since has decided before.
  return __atomic_load_n(&order.decided, __ATOMIC_ACQUIRE) >= place.number || entries_.has_left(rank);
}

// Returns the first rank that still has to read the line. A rank that came through the host does not read, nor does one
// that has failed.
int CallMatcher::undecided(const CallId& place) {
  for (int r = 0; r < description_.size; ++r) {
    if (r == description_.rank || (entries_.known(r) && has_decided(r, place))) continue;
    const Look seen = look_at(r, place);
    if (seen.failed || seen.seen == Seen::gone) continue;
    if (seen.seen == Seen::not_there || gc_arrival_kind(seen.arrival) != GC_KIND_HOST) return r;
  }
  return -1;
}

Status CallMatcher::await_decisions(const CallId& place, core::Communicator* runtime, Component* among) {
  decide(place);
  CallWait wait = CallWait::among_ranks(place, runtime, Clock::now(), among);
  for (; wait.rank < description_.size; wait.go_to_next(description_.size)) {
    if (wait.rank == description_.rank) continue;
    for (int look = 1; !has_decided(wait.rank, place); ++look) {
      if (look_at(wait.rank, place).failed) return failures_.failure_of(wait.rank);
      description_.calls->progress();
      entries_.look_for_news(wait.rank);
      if (look % kLooksPerCheck == 0) GC_TRY(watch_.look_around(wait));
    }
  }
  return {};
}

}  // namespace gpucoll::coll
