#include "coll/match/call_matcher.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/hash.h"
#include "base/mutant.h"
#include "base/observe/causes.h"
#include "base/observe/counters.h"
#include "base/observe/trace.h"
#include "base/params.h"
#include "coll/match/board_line.h"

namespace gpucoll::coll {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::nanoseconds;

constexpr int kLooksPerCheck = 4096;

}  // namespace

const char* function_name(uint32_t function) {
#define GC_FUNCTION(name, text) text,
  static constexpr const char* kNames[] = {"no collective", GC_BOARD_FUNCTIONS(GC_FUNCTION)};
#undef GC_FUNCTION
  const uint32_t plain = function & ~uint32_t{GC_PERSISTENT};
  return plain < GC_FUNCTION_end ? kNames[plain] : kNames[0];
}

const char* name_of(const CallId& place) {
#define GC_FUNCTION(name, text) "MPI_I" #name,
  static constexpr const char* kNonblocking[] = {"no collective", GC_BOARD_FUNCTIONS(GC_FUNCTION)};
#undef GC_FUNCTION
#define GC_FUNCTION(name, text) text "_init",
  static constexpr const char* kMade[] = {"no collective", GC_BOARD_FUNCTIONS(GC_FUNCTION)};
#undef GC_FUNCTION
#define GC_FUNCTION(name, text) "a start of " text "_init",
  static constexpr const char* kStarted[] = {"no collective", GC_BOARD_FUNCTIONS(GC_FUNCTION)};
#undef GC_FUNCTION
  const uint32_t plain = place.function & ~uint32_t{GC_PERSISTENT};
  if (plain >= GC_FUNCTION_end || place.order == GC_ORDER_BLOCKING || place.order == GC_ORDER_NEIGHBORS)
    return function_name(place.function);
  if (place.order == kStarts) return kStarted[plain];
  return place.function & GC_PERSISTENT ? kMade[plain] : kNonblocking[plain];
}

// Within a group of an intercommunicator nobody waits for the others.
bool CallMatcher::holds_everybody(const CallId& place) const noexcept {
  const uint32_t function = place.function;
  return !description_.two_groups && place.order == GC_ORDER_BLOCKING &&
         (function == GC_FUNCTION_allreduce || function == GC_FUNCTION_allgather || function == GC_FUNCTION_alltoall ||
          function == GC_FUNCTION_reduce_scatter_block);
}

core::BoardKey CallMatcher::key() const {
  uint64_t members = static_cast<uint64_t>(description_.size);
  for (int r = 0; r < description_.size; ++r)
    members = hash_combine(members, description_.calls->process_name(description_.ctx, r));
  uint64_t incarnation = MpiProcess::instance().incarnation(description_.context_id, members);
  uint64_t a = hash_combine(hash_combine(members, description_.context_id), incarnation);
  return {{a, hash_combine(a, 0x5bd1e995) | 1}};  // never 0: that marks a free entry
}

Status CallMatcher::open() {
  key_ = key();
  entry_ = MpiProcess::instance().board().claim(key_);
  if (entry_) return {};
  return Status::error(Code::out_of_memory,
                       "no room on the arrival board for communicator %s: free communicators that are no longer used",
                       description_.name);
}

CallMatcher::~CallMatcher() {
  if (!entry_) return;
  MpiProcess::instance().board().release(entry_);
  for (RemoteProcess* const process : remotes_) {
    process->put(proto::BoardMessage::kReleased, &key_, sizeof key_);
    process->forget(key_);
  }
}

Status CallMatcher::find_peers(int* rank) {
  const auto n = static_cast<size_t>(description_.size);
  peers_.assign(n, nullptr);
  peer_entries_.assign(n, nullptr);
  for (int r = 0; r < description_.size; ++r) {
    if (r == description_.rank) continue;
    *rank = r;
    GC_TRY_AS(peers_[static_cast<size_t>(r)],
              MpiProcess::instance().peer(description_.calls->peer(description_.ctx, r), description_.rank));
  }
  return connect_remotes(rank);
}

std::string CallMatcher::rank_name(int rank) const {
  const PeerProcess* peer = peers_[static_cast<size_t>(rank)];
  return "rank " + std::to_string(rank) + (peer ? " (" + peer->name() + ")" : "");
}

bool CallMatcher::alive(int rank) const noexcept {
  return rank == description_.rank || peers_[static_cast<size_t>(rank)]->alive();
}

void CallMatcher::publish(const CallId& place, uint32_t kind, const gc_board_line& line) {
  gc_board_line& mine = own_lines(place.order)[place.number % GC_BOARD_LINES];
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
    tell({{&mine.arrival, sizeof mine.arrival}});
  else if (line.number == GC_NUMBER_NONE)
    tell_line(place);  // else once it has its number
}

void CallMatcher::get_ready(const CallId& place) noexcept {
  // Partner: is_ready of the peers, which see it before the number is taken.
  gc_board_line& mine = own_lines(place.order)[place.number % GC_BOARD_LINES];
  __atomic_exchange_n(&mine.number, uint64_t{GC_NUMBER_COMING}, __ATOMIC_SEQ_CST);
}

uint64_t CallMatcher::give_number(const CallId& place) noexcept {
  const uint64_t number = MpiProcess::instance().board().take_number();
  gc_board_line& mine = own_lines(place.order)[place.number % GC_BOARD_LINES];
  __atomic_store_n(&mine.number, number, __ATOMIC_RELEASE);  // partner: number_of of the peers
  tell_line(place);
  return number;
}

void CallMatcher::fail(const CallId& place, const gc_comm& comm, const Status& why) noexcept {
  if (failed()) return;
  // Without memory for it the words alone have to do.
  contained([&]() -> Status {
    std::snprintf(entry_->cause, sizeof entry_->cause, "%s", told_of(why).c_str());
    return {};
  }).ignore();
  for (uint32_t order = 0; order < GC_ORDERS; ++order) {
    const uint64_t first = order == place.order ? place.number : comm.orders[order].sequence + 1;
    __atomic_store_n(&entry_->orders[order].failed, first, __ATOMIC_RELEASE);  // partner: look_at of the peers
  }
  tell({{entry_->cause, sizeof entry_->cause},
        {&entry_->orders[0].failed, 8},
        {&entry_->orders[1].failed, 8},
        {&entry_->orders[2].failed, 8}});
}

void CallMatcher::fail_quietly(const CallId& place, const gc_comm& comm, const Status& why) noexcept {
  if (failed()) return;
  __atomic_store_n(&entry_->ending, uint64_t{GC_ENDING_QUIETLY}, __ATOMIC_RELEASE);  // partner: ending of the peers
  tell({{&entry_->ending, sizeof entry_->ending}});
  fail(place, comm, why);
}

void CallMatcher::end_mpi() noexcept {
  if (ending(description_.rank)) return;
  __atomic_store_n(&entry_->ending, uint64_t{GC_ENDING_MPI}, __ATOMIC_RELEASE);
  tell({{&entry_->ending, sizeof entry_->ending}});
}

uint64_t CallMatcher::ending(int rank) const noexcept {
  if (rank == description_.rank) return __atomic_load_n(&entry_->ending, __ATOMIC_ACQUIRE);
  const PeerProcess* const peer = peers_.empty() ? nullptr : peers_[static_cast<size_t>(rank)];
  if (!peer) return 0;
  const gc_board_entry* const entry = peer->board().find(key_);
  const uint64_t told = entry ? __atomic_load_n(&entry->ending, __ATOMIC_ACQUIRE) : 0;
  return told || !peer->board().has_ended() ? told : uint64_t{GC_ENDING_MPI};
}

bool CallMatcher::any_ending() const noexcept {
  for (int r = 0; r < description_.size; ++r)
    if (ending(r)) return true;
  return false;
}

bool CallMatcher::failed() const noexcept { return __atomic_load_n(&entry_->orders[0].failed, __ATOMIC_RELAXED) != 0; }

Status CallMatcher::usable() const {
  if (!failed()) return {};
  return Status::error(Code::remote, "%s cannot be used any more, as a collective on it has failed: %s",
                       description_.name, entry_->cause);
}

// Asks a rank on another node that has not come: with host memory it tells nothing by itself.
CallMatcher::Look CallMatcher::look_at(int rank, const CallId& place) {
  const Look seen = see(rank, place);
  RemoteProcess* const process = remote(rank);
  if (!process || seen.seen != Seen::not_there || seen.failed || gc_mutant(181)) return seen;
  std::atomic<uint64_t>& asked = asked_[static_cast<size_t>(rank) * GC_ORDERS + place.order];
  uint64_t last = asked.load(std::memory_order_relaxed);
  if (last < place.number && asked.compare_exchange_strong(last, place.number))
    process->await(key_, place.order, place.number);
  return seen;
}

CallMatcher::Look CallMatcher::see(int rank, const CallId& place) {
  const uint64_t number = place.number;
  const gc_board_entry* entry = peer_entry(rank);
  if (!entry) {
    const core::Board& board = peers_[static_cast<size_t>(rank)]->board();
    entry = board.find(key_);
    if (!entry) return {board.is_gone(key_) ? Seen::gone : Seen::not_there, 0, false};
    __atomic_store_n(&peer_entries_[static_cast<size_t>(rank)], entry, __ATOMIC_RELAXED);
  }
  const gc_board_order& order = entry->orders[place.order];
  // Acquire: whoever sees what was stored after the entry was taken for another communicator sees that it was taken.
  const uint64_t failed = __atomic_load_n(&order.failed, __ATOMIC_ACQUIRE);
  const bool left = __atomic_load_n(&entry->left, __ATOMIC_ACQUIRE) != 0;
  const uint64_t arrival = __atomic_load_n(&order.lines[number % GC_BOARD_LINES].arrival, __ATOMIC_ACQUIRE);
  if (__atomic_load_n(&entry->key[1], __ATOMIC_RELAXED) != key_.word[1]) return {Seen::gone, 0, false};
  const bool has_failed = failed != 0 && failed <= number;
  if (gc_arrival_number(arrival) == number) return {Seen::come, arrival, has_failed};
  return {left || gc_arrival_number(arrival) > number ? Seen::gone : Seen::not_there, 0, has_failed};
}

Status CallMatcher::failure_of(int rank) const {
  const gc_board_entry* const entry = peers_[static_cast<size_t>(rank)]->board().find(key_);
  if (entry && entry->cause[0])
    return Status::error(Code::remote, "%.*s", static_cast<int>(sizeof entry->cause), entry->cause).blaming();
  return Status::error(Code::remote, "%s has failed in a collective on %s; its own message says why",
                       rank_name(rank).c_str(), description_.name);
}

Status CallMatcher::told(int rank) const {
  const gc_board_entry* const entry = peers_[static_cast<size_t>(rank)]->board().find(key_);
  const bool has_failed = entry && __atomic_load_n(&entry->orders[0].failed, __ATOMIC_ACQUIRE) != 0;
  return has_failed ? failure_of(rank) : Status();
}

// The one that has not run for longest.
Status CallMatcher::stopped(Clock::time_point since) const {
  nanoseconds longest(0);
  int who = -1;
  for (int r = 0; r < description_.size; ++r) {
    if (r == description_.rank) continue;
    const PeerProcess* const peer = peers_[static_cast<size_t>(r)];
    const auto silence = peer ? core::Heart::silence(peer->board().pulse(), since) : nanoseconds(0);
    if (silence > longest) who = r;
    longest = std::max(longest, silence);
  }
  if (who < 0) return {};
  return core::stopped(rank_name(who), longest, description_.rank, static_cast<long long>(params().timeout),
                       remote(who) != nullptr);
}

std::vector<core::Surroundings::Bystander> CallMatcher::bystanders() const {
  std::vector<core::Surroundings::Bystander> all;
  for (int r = 0; r < description_.size; ++r)
    if (const PeerProcess* const peer = peers_[static_cast<size_t>(r)])
      all.push_back({rank_name(r), &peer->board().pulse()});
  return all;
}

Status CallMatcher::in_mpi(int rank, const CallId& place) const {
  if (rank == description_.rank) return {};
  if (!peers_[static_cast<size_t>(rank)]->board().has_ended()) {
    if (RemoteProcess* const process = remote(rank)) process->ask_end();
    return {};
  }
  return Status::error(Code::remote,
                       "%s has called MPI_Finalize, but rank %d waits for it in %s on %s: all ranks must call the same "
                       "collectives, and complete them",
                       rank_name(rank).c_str(), description_.rank, name_of(place), description_.name);
}

Status CallMatcher::still_comes(Wait& wait) const {
  if (wait.runtime && wait.runtime->fault().raised()) return wait.runtime->fault().status();
  if (wait.rank == description_.rank || wait.rank >= description_.size) return {};
  if (!alive(wait.rank))
    return died_or_failed(
        wait.rank,
        Status::error(Code::remote, "%s died%s before it came to collective %llu of %s, %s",
                      rank_name(wait.rank).c_str(),
                      remote(wait.rank) ? ", or its host cannot be reached any more," : "",
                      static_cast<unsigned long long>(wait.place.number), description_.name, name_of(wait.place))
            .blaming());
  // It may have come before it ended: only if the next look does not see it either.
  if (Status in = in_mpi(wait.rank, wait.place); !in) {
    if (std::exchange(wait.ended, wait.rank) == wait.rank) return in;
    in.ignore();
  }
  return {};
}

// All ranks begin a communicator's calls in one order, so none can have begun a nonblocking one behind those of this
// rank before it comes to the blocking one. Only one with device memory tells so: Open MPI begins calls by itself, on
// host memory, while it makes progress (MPI_Comm_idup). A rank on another node may have come, and not have told.
Status CallMatcher::check_form(int rank, const CallId& place) const {
  if (place.begun_before == CallId::kNoCount || remote(rank) || gc_mutant(597)) return {};
  const gc_board_entry* const entry = peers_[static_cast<size_t>(rank)]->board().find(key_);
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
      description_.name, description_.rank, name_of(place), rank_name(rank).c_str(),
      name_of({GC_ORDER_NONBLOCKING, next, gc_arrival_function(begun)}));
}

Status CallMatcher::look_around(Wait& wait) const {
  GC_TRY(still_comes(wait));
  if (wait.rank == description_.rank || wait.rank >= description_.size) return {};
  GC_TRY(check_form(wait.rank, wait.place));
  report(wait);
  return in_time(wait.start, nanoseconds(0), [&] {
    return Status::error(Code::timed_out, "rank %d waited %lld s (parameter timeout) in %s on %s: %s has not come",
                         description_.rank, static_cast<long long>(params().timeout), name_of(wait.place),
                         description_.name, rank_name(wait.rank).c_str());
  });
}

Result<uint32_t> CallMatcher::kind_of(int rank, const Look& look, const CallId& place) const {
  const CallId theirs = {place.order, place.number, gc_arrival_function(look.arrival)};
  if (look.seen == Seen::come && theirs.function != place.function)
    return Status::error(Code::invalid_usage, "collective %llu of %s: rank %d calls %s, but %s calls %s",
                         static_cast<unsigned long long>(place.number), description_.name, description_.rank,
                         name_of(place), rank_name(rank).c_str(), name_of(theirs));
  if (look.failed) return failure_of(rank);
  if (look.seen == Seen::gone && holds_everybody(place))
    return Status::error(Code::invalid_usage,
                         "%s has gone on from collective %llu of %s, where this rank %d calls %s: the ranks call "
                         "different collectives",
                         rank_name(rank).c_str(), static_cast<unsigned long long>(place.number), description_.name,
                         description_.rank, name_of(place));
  return look.seen == Seen::come ? gc_arrival_kind(look.arrival) : uint32_t{GC_KIND_HOST};
}

Result<CallMatcher::Verdict> CallMatcher::look(Wait& wait) {
  for (; wait.rank < description_.size; go_to_next(wait)) {
    if (wait.rank == description_.rank) continue;
    const Look seen = look_at(wait.rank, wait.place);
    if (seen.seen == Seen::not_there && !seen.failed) return Verdict::waiting;
    GC_TRY_AS(const uint32_t kind, kind_of(wait.rank, seen, wait.place));
    if (kind == GC_KIND_HOST) return Verdict::host;
    if (kind == GC_KIND_REFUSED) return Verdict::refused;
    wait.any_device |= kind == GC_KIND_DEVICE;
    if (wait.among && !wait.among->complete) add_neighbors_of(wait.rank, wait.among);
  }
  if (wait.among) wait.among->complete = true;
  return wait.any_device ? Verdict::device : Verdict::host;
}

// ---- among neighbours ----

CallMatcher::Wait CallMatcher::wait_among(const CallId& place, core::Communicator* runtime, Clock::time_point since,
                                          Component* among) const {
  Wait wait = {.place = place, .runtime = runtime, .start = since, .among = among};
  if (among) wait.rank = among->ranks.front();
  return wait;
}

void CallMatcher::go_to_next(Wait& wait) const {
  if (!wait.among)
    ++wait.rank;
  else
    wait.rank = ++wait.at < wait.among->ranks.size() ? wait.among->ranks[wait.at] : description_.size;
}

Status CallMatcher::tell_neighbors(const gc_call& call, Component* component) noexcept {
  if (description_.size > GC_BOARD_NEIGHBORS)
    return Status::error(Code::unsupported, "%d ranks, of which %d could", description_.size, int{GC_BOARD_NEIGHBORS})
        .because(Cause::many_neighbors);
  uint64_t words[GC_BOARD_NEIGHBORS / 64] = {};
  const auto add = [&](int rank) { words[rank / 64] |= uint64_t{1} << rank % 64; };
  std::for_each(call.sources, call.sources + call.n_sources, add);
  std::for_each(call.destinations, call.destinations + call.n_destinations, add);
  std::memcpy(entry_->neighbors, words, sizeof words);  // the line's arrival releases it
  tell({{entry_->neighbors, sizeof entry_->neighbors}});
  *component = own_component();
  return {};
}

Component CallMatcher::own_component() const {
  Component component = {{description_.rank}};
  add_neighbors_of(description_.rank, &component);
  return component;
}

void CallMatcher::add_neighbors_of(int rank, Component* component) const {
  std::vector<int>& ranks = component->ranks;
  for (int r = 0; r < description_.size; ++r) {
    const bool joined = entry_of(rank).neighbors[r / 64] >> r % 64 & 1;
    if (joined && std::find(ranks.begin(), ranks.end(), r) == ranks.end()) ranks.push_back(r);
  }
}

// ---- deciding ----

void CallMatcher::hint_device(uint32_t form, uint32_t function) noexcept {
  // Relaxed: it says nothing of anything else. One thread at a time writes it.
  uint64_t& word = entry_->device_hints[form];
  const uint64_t known = __atomic_load_n(&word, __ATOMIC_RELAXED), now = known | uint64_t{1} << function;
  if (now == known) return;
  __atomic_store_n(&word, now, __ATOMIC_RELAXED);
  tell({{&word, sizeof word}});
}

uint64_t CallMatcher::device_hints(uint32_t form) noexcept {
  uint64_t all = 0;
  for (int r = 0; r < description_.size; ++r) {
    if (r == description_.rank) continue;
    const gc_board_entry* const entry = peers_[static_cast<size_t>(r)]->board().find(key_);
    if (entry) all |= __atomic_load_n(&entry->device_hints[form], __ATOMIC_RELAXED);
  }
  return all;
}

Result<bool> CallMatcher::all_on_device(const CallId& place, core::Communicator* runtime, bool has_device_memory,
                                        int* refused_by, Component* among) {
  Wait wait = wait_among(place, runtime, {}, among);
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
    look_for_news(wait.rank);
    if (looks % kLooksPerCheck == 0) GC_TRY(look_around(wait));
  }
}

Status CallMatcher::refusal_of(int rank, const CallId& place) const {
  return Status::error(Code::remote, "%s has refused %s on %s for its arguments; its own message says why",
                       rank_name(rank).c_str(), name_of(place), description_.name);
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
  Wait wait = {place, nullptr};
  for (; wait.rank < description_.size; ++wait.rank) {
    if (wait.rank == description_.rank) continue;
    for (int looks = 1;; ++looks) {
      const Look seen = look_at(wait.rank, place);
      if (seen.failed) return failure_of(wait.rank);
      if (seen.seen != Seen::not_there) break;
      description_.calls->progress();
      if (looks % kLooksPerCheck == 0) GC_TRY(look_around(wait));
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
    const gc_board_line& line = entry_of(r).orders[place.order].lines[place.number % GC_BOARD_LINES];
    gc_board_line& read = (*lines)[static_cast<size_t>(r)];
    as_before = as_before && are_alike(line, read);
    read = line;
  }
  return as_before;
}

// ---- what has been read ----

void CallMatcher::decide(const CallId& place) noexcept {
  // Partner: has_decided of the peers.
  uint64_t& decided = entry_->orders[place.order].decided;
  __atomic_store_n(&decided, place.number, __ATOMIC_RELEASE);
  tell({{&decided, sizeof decided}});
}

void CallMatcher::tell_batch_size(const CallId& place, size_t n) noexcept {
  uint8_t& word = entry_->orders[place.order].batch_size[place.number % GC_BOARD_LINES];
  __atomic_store_n(&word, static_cast<uint8_t>(n), __ATOMIC_RELEASE);  // partner: together of the peers
  const gc_board_order& order = entry_->orders[place.order];
  if (n) tell({{order.batch_size, sizeof order.batch_size}});  // else with the line
}

// Rank 0 keeps the line until this rank has decided.
Result<size_t> CallMatcher::batch_size(const CallId& place) {
  if (look_at(0, place).failed) return failure_of(0);
  const uint8_t& word = entry_of(0).orders[place.order].batch_size[place.number % GC_BOARD_LINES];
  return size_t{__atomic_load_n(&word, __ATOMIC_ACQUIRE)};
}

bool CallMatcher::has_left(int rank) const noexcept {
  const gc_board_entry& entry = entry_of(rank);
  return __atomic_load_n(&entry.left, __ATOMIC_ACQUIRE) ||
         __atomic_load_n(&entry.key[1], __ATOMIC_ACQUIRE) != key_.word[1];
}

bool CallMatcher::has_decided(int rank, const CallId& place) const noexcept {
  const gc_board_order& order = entry_of(rank).orders[place.order];
  // A rank that has freed the communicator since has decided before.
  return __atomic_load_n(&order.decided, __ATOMIC_ACQUIRE) >= place.number || has_left(rank);
}

// Returns the first rank that still has to read the line. A rank that came through the host does not read, nor does one
// that has failed.
int CallMatcher::undecided(const CallId& place) {
  for (int r = 0; r < description_.size; ++r) {
    if (r == description_.rank || (peer_entry(r) && has_decided(r, place))) continue;
    const Look seen = look_at(r, place);
    if (seen.failed || seen.seen == Seen::gone) continue;
    if (seen.seen == Seen::not_there || gc_arrival_kind(seen.arrival) != GC_KIND_HOST) return r;
  }
  return -1;
}

Status CallMatcher::await_decisions(const CallId& place, core::Communicator* runtime, Component* among) {
  decide(place);
  Wait wait = wait_among(place, runtime, Clock::now(), among);
  for (; wait.rank < description_.size; go_to_next(wait)) {
    if (wait.rank == description_.rank) continue;
    for (int look = 1; !has_decided(wait.rank, place); ++look) {
      if (look_at(wait.rank, place).failed) return failure_of(wait.rank);
      description_.calls->progress();
      look_for_news(wait.rank);
      if (look % kLooksPerCheck == 0) GC_TRY(look_around(wait));
    }
  }
  return {};
}

const gc_board_starts& CallMatcher::starts_of(int rank) const { return entry_of(rank).starts; }

Status CallMatcher::usable(int rank) const {
  const uint64_t failed = __atomic_load_n(&entry_of(rank).orders[0].failed, __ATOMIC_ACQUIRE);
  return failed && !has_left(rank) ? failure_of(rank) : Status();
}

Status CallMatcher::others(bool may_end) const {
  for (int r = 0; r < description_.size; ++r) {
    if (r == description_.rank) continue;
    if (!may_end || ending(r) != GC_ENDING_QUIETLY) GC_TRY(usable(r));
    if (!alive(r))
      return died_or_failed(
          r,
          Status::error(Code::remote, "%s died: %s cannot go on", rank_name(r).c_str(), description_.name).blaming());
  }
  return {};
}

void CallMatcher::post_part(uint32_t meeting, uint64_t k, const void* mine, size_t bytes) noexcept {
  gc_board_meeting& place = entry_->meetings[meeting];
  std::memcpy(place.parts[k % 2], mine, bytes);
  __atomic_store_n(&place.met, k, __ATOMIC_RELEASE);  // partner: met of the peers
  tell({{place.parts[k % 2], (bytes + 7) / 8 * 8}, {&place.met, sizeof place.met}});
}

const uint8_t* CallMatcher::part_of(uint32_t meeting, int rank, uint64_t k) const noexcept {
  const gc_board_meeting& place = entry_of(rank).meetings[meeting];
  return __atomic_load_n(&place.met, __ATOMIC_ACQUIRE) >= k ? place.parts[k % 2] : nullptr;
}

}  // namespace gpucoll::coll
