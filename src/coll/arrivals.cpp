#include "coll/arrivals.h"

#include <chrono>
#include <cstddef>
#include <cstring>

#include "base/params.h"

namespace gpucoll::coll {
namespace {

using Clock = std::chrono::steady_clock;

uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15ull;
  return hash ^ (hash >> 29);
}

constexpr int kLooksPerCheck = 4096;

}  // namespace

const char* function_name(uint32_t function) {
#define GC_FUNCTION(name, text) text,
  static constexpr const char* kNames[] = {"no collective", GC_BOARD_FUNCTIONS(GC_FUNCTION)};
#undef GC_FUNCTION
  return function < GC_FUNCTION_end ? kNames[function] : kNames[0];
}

bool holds_everybody(uint32_t function) {
  return function == GC_FUNCTION_allreduce || function == GC_FUNCTION_allgather || function == GC_FUNCTION_alltoall ||
         function == GC_FUNCTION_reduce_scatter_block;
}

// One wait for other ranks.
struct Arrivals::Wait {
  uint64_t number;
  uint32_t function;
  core::Communicator* runtime;
  Clock::time_point start = Clock::now();
};

core::BoardKey Arrivals::key() const {
  uint64_t members = static_cast<uint64_t>(description_.size);
  for (int r = 0; r < description_.size; ++r)
    members = mix(members, description_.calls->process_name(description_.ctx, r));
  uint64_t incarnation = MpiProcess::instance().incarnation(description_.context_id, members);
  uint64_t a = mix(mix(members, description_.context_id), incarnation);
  return {{a, mix(a, 0x5bd1e995) | 1}};  // never 0: that marks a free entry
}

Status Arrivals::open() {
  key_ = key();
  entry_ = MpiProcess::instance().board().claim(key_);
  if (entry_) return {};
  return Status::error(Code::out_of_memory,
                       "no room on the arrival board for communicator %s: free communicators that are no longer used",
                       description_.name);
}

Arrivals::~Arrivals() {
  if (entry_) MpiProcess::instance().board().release(entry_);
}

Status Arrivals::find_peers(int* rank) {
  const auto n = static_cast<size_t>(description_.size);
  peers_.assign(n, nullptr);
  peer_entries_.assign(n, nullptr);
  lines_.resize(n);
  for (int r = 0; r < description_.size; ++r) {
    if (r == description_.rank) continue;
    *rank = r;
    GC_TRY_AS(peers_[static_cast<size_t>(r)],
              MpiProcess::instance().peer(description_.calls->peer(description_.ctx, r)));
  }
  return {};
}

std::string Arrivals::rank_name(int rank) const {
  const PeerProcess* peer = peers_[static_cast<size_t>(rank)];
  return "rank " + std::to_string(rank) + (peer ? " (process " + std::to_string(peer->pid) + ")" : "");
}

void Arrivals::publish(uint64_t number, uint32_t function, uint32_t kind, const gc_board_line& line) {
  gc_board_line& mine = entry_->lines[number % GC_BOARD_LINES];
  const uint64_t arrival = gc_arrival(number, function, kind);
  if (kind == GC_KIND_DEVICE) {
    // All but `arrival`, which others may be looking at.
    constexpr size_t kRest = offsetof(gc_board_line, count);
    std::memcpy(reinterpret_cast<char*>(&mine) + kRest, reinterpret_cast<const char*>(&line) + kRest,
                sizeof line - kRest);
    lines_[static_cast<size_t>(description_.rank)] = line;
  }
  __atomic_store_n(&mine.arrival, arrival, __ATOMIC_RELEASE);  // partner: look_at of the peers
}

void Arrivals::fail(uint64_t number) noexcept {
  if (entry_->failed) return;
  __atomic_store_n(&entry_->failed, number, __ATOMIC_RELEASE);  // partner: look_at of the peers
}

Arrivals::Look Arrivals::look_at(int rank, uint64_t number) {
  const gc_board_entry*& entry = peer_entries_[static_cast<size_t>(rank)];
  if (!entry) entry = peers_[static_cast<size_t>(rank)]->board.find(key_);
  if (!entry) return {Seen::not_there, 0, false};
  // Acquire: whoever sees what was stored after the entry was taken for another communicator sees that it was taken.
  const uint64_t failed = __atomic_load_n(&entry->failed, __ATOMIC_ACQUIRE);
  const bool left = __atomic_load_n(&entry->left, __ATOMIC_ACQUIRE) != 0;
  const uint64_t arrival = __atomic_load_n(&entry->lines[number % GC_BOARD_LINES].arrival, __ATOMIC_ACQUIRE);
  if (__atomic_load_n(&entry->key[1], __ATOMIC_RELAXED) != key_.word[1]) return {Seen::gone, 0, false};
  const bool has_failed = failed != 0 && failed <= number;
  if (gc_arrival_number(arrival) == number) return {Seen::come, arrival, has_failed};
  return {left || gc_arrival_number(arrival) > number ? Seen::gone : Seen::not_there, 0, has_failed};
}

Status Arrivals::failure_of(int rank) const {
  return Status::error(Code::remote, "%s has failed in a collective on %s; its own message says why",
                       rank_name(rank).c_str(), description_.name);
}

// What keeps a rank from ever coming, or this one from waiting.
Status Arrivals::look_around(int rank, const Wait& wait) const {
  if (wait.runtime && wait.runtime->fault().raised()) return wait.runtime->fault().status();
  if (!peers_[static_cast<size_t>(rank)]->liveness.alive())
    return Status::error(Code::remote, "%s died before it came to collective %llu of %s, %s", rank_name(rank).c_str(),
                         static_cast<unsigned long long>(wait.number), description_.name, function_name(wait.function));
  if (params().timeout && Clock::now() - wait.start > std::chrono::seconds(params().timeout))
    return Status::error(Code::timed_out, "rank %d waited %lld s (parameter timeout) in %s on %s: %s has not come",
                         description_.rank, static_cast<long long>(params().timeout), function_name(wait.function),
                         description_.name, rank_name(rank).c_str());
  return {};
}

Result<bool> Arrivals::on_device(int rank, const Look& look, const Wait& wait) const {
  const uint32_t theirs = gc_arrival_function(look.arrival);
  if (look.seen == Seen::come && theirs != wait.function)
    return Status::error(Code::invalid_usage, "collective %llu of %s: rank %d calls %s, but %s calls %s",
                         static_cast<unsigned long long>(wait.number), description_.name, description_.rank,
                         function_name(wait.function), rank_name(rank).c_str(), function_name(theirs));
  if (look.failed) return failure_of(rank);
  if (look.seen == Seen::gone && holds_everybody(wait.function))
    return Status::error(Code::invalid_usage,
                         "%s has gone on from collective %llu of %s, where this rank %d calls %s: the ranks call "
                         "different collectives",
                         rank_name(rank).c_str(), static_cast<unsigned long long>(wait.number), description_.name,
                         description_.rank, function_name(wait.function));
  return look.seen == Seen::come && gc_arrival_kind(look.arrival) == GC_KIND_DEVICE;
}

Result<bool> Arrivals::all_on_device(uint64_t number, uint32_t function, core::Communicator* runtime) {
  const Wait wait = {number, function, runtime};
  for (int r = 0; r < description_.size; ++r) {
    if (r == description_.rank) continue;
    Look seen = look_at(r, number);
    for (int look = 1; seen.seen == Seen::not_there && !seen.failed; ++look) {
      description_.calls->progress();
      if (look % kLooksPerCheck == 0) GC_TRY(look_around(r, wait));
      seen = look_at(r, number);
    }
    GC_TRY_AS(const bool device, on_device(r, seen, wait));
    if (!device) return false;
  }
  read_lines(number);
  if (!holds_everybody(function)) decide(number);
  return true;
}

// All have come with device memory: nobody writes the lines before everybody has decided.
void Arrivals::read_lines(uint64_t number) {
  for (int r = 0; r < description_.size; ++r) {
    const auto i = static_cast<size_t>(r);
    if (r != description_.rank) lines_[i] = peer_entries_[i]->lines[number % GC_BOARD_LINES];
  }
}

void Arrivals::decide(uint64_t number) noexcept {
  __atomic_store_n(&entry_->decided, number, __ATOMIC_RELEASE);  // partner: has_decided of the peers
}

bool Arrivals::has_decided(int rank, uint64_t number) const {
  const gc_board_entry& entry = *peer_entries_[static_cast<size_t>(rank)];
  const bool decided = __atomic_load_n(&entry.decided, __ATOMIC_ACQUIRE) >= number;
  // Who has freed the communicator since has decided before.
  return decided || __atomic_load_n(&entry.left, __ATOMIC_ACQUIRE) ||
         __atomic_load_n(&entry.key[1], __ATOMIC_ACQUIRE) != key_.word[1];
}

Status Arrivals::await_decisions(uint64_t number, uint32_t function, core::Communicator* runtime) {
  decide(number);
  const Wait wait = {number, function, runtime};
  for (int r = 0; r < description_.size; ++r) {
    if (r == description_.rank) continue;
    for (int look = 1; !has_decided(r, number); ++look) {
      if (look_at(r, number).failed) return failure_of(r);
      description_.calls->progress();
      if (look % kLooksPerCheck == 0) GC_TRY(look_around(r, wait));
    }
  }
  return {};
}

}  // namespace gpucoll::coll
