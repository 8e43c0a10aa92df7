#include "coll/request/persistent_schedule.h"

#include <algorithm>

#include "base/shared_word.h"

namespace gpucoll::coll {
namespace {

constexpr int kWords = GC_BOARD_SLOTS / 64;

uint64_t bit(int slot) { return uint64_t{1} << slot % 64; }
// Partners are the loads with acquire of other ranks.
void store(uint64_t& word, uint64_t value) { __atomic_store_n(&word, value, __ATOMIC_RELEASE); }

}  // namespace

// ---- every rank ----

// Sends `scheduled` after the steps, and `started` after the number.
void PersistentSchedule::tell_starts() const noexcept {
  const gc_board_starts& own = own_starts();
  entries_.tell({{own.schedule, sizeof own.schedule},
                 {own.numbers, sizeof own.numbers},
                 {&own.scheduled, sizeof own.scheduled},
                 {&own.number, sizeof own.number},
                 {own.started, sizeof own.started},
                 {own.held, sizeof own.held},
                 {&own.read, sizeof own.read}});
}

void PersistentSchedule::hold(int slot, bool joins) noexcept {
  uint64_t& word = own_starts().held[slot / 64];
  store(word, word | bit(slot));
  tell_starts();
  joins_[slot / 64] = (joins_[slot / 64] & ~bit(slot)) | (joins ? bit(slot) : 0);
}

void PersistentSchedule::start(int slot) noexcept { started_[slot / 64] ^= bit(slot); }

void PersistentSchedule::publish_starts() noexcept {
  gc_board_starts& own = own_starts();
  store(own.number, MpiProcess::instance().board().take_number());
  for (int word = 0; word < kWords; ++word) store(own.started[word], started_[word]);
  tell_starts();
}

void PersistentSchedule::give_back(int slot) noexcept {
  gc_board_starts& own = own_starts();
  started_[slot / 64] &= ~bit(slot);
  store(own.started[slot / 64], own.started[slot / 64] & ~bit(slot));
  store(own.held[slot / 64], own.held[slot / 64] & ~bit(slot));
  tell_starts();
  scheduled_starts_[slot / 64] &= ~bit(slot);  // of rank 0: else it would look as if all had started it
}

std::optional<PersistentSchedule::Step> PersistentSchedule::next() {
  const gc_board_starts& first = starts_of(0);
  const size_t at = (read_ + 1) % GC_BOARD_SCHEDULE;
  if (load_acquire(first.scheduled) <= read_) return {};
  const uint64_t number = load_acquire(first.numbers[at]);
  if (!number) return {};
  const Step step = {load_acquire(first.schedule[at]), number};
  // From another node may come anything. What makes no sense has not come: who waits for it ends within its timeout.
  if (gc_step_slot(step.what) >= kSlots) return {};
  MpiProcess::instance().board().raise_number(number);
  store(own_starts().read, ++read_);
  tell_starts();
  return step;
}

bool PersistentSchedule::puts_behind(uint64_t number) const noexcept {
  return numbers_.puts_starts_behind(number, read_);
}

int PersistentSchedule::missing(int slot) const noexcept {
  const int word = slot / 64;
  const uint64_t mine = load_acquire(starts_of(description_.rank).started[word]);
  for (int r = 0; r < description_.size; ++r) {
    const gc_board_starts& its = starts_of(r);
    if (((load_acquire(its.started[word]) ^ mine) | ~load_acquire(its.held[word])) & bit(slot)) return r;
  }
  return keeps_back();
}

int PersistentSchedule::keeps_back() const noexcept {
  for (int r = 0; description_.rank == 0 && r < description_.size; ++r)
    if (load_acquire(starts_of(r).read) < scheduled_) return r;
  return 0;
}

// ---- rank 0 ----

bool PersistentSchedule::all_have_read(uint64_t steps) noexcept {
  if (read_by_all_ >= steps) return true;
  for (int r = 0; r < description_.size; ++r)
    if (load_acquire(starts_of(r).read) < steps && !entries_.has_left(r)) return false;
  read_by_all_ = steps;
  return true;
}

void PersistentSchedule::append(uint64_t step) noexcept {
  ++scheduled_;
  gc_board_starts& own = own_starts();
  __atomic_store_n(&own.schedule[scheduled_ % GC_BOARD_SCHEDULE], step, __ATOMIC_RELAXED);
  __atomic_store_n(&own.numbers[scheduled_ % GC_BOARD_SCHEDULE], 0, __ATOMIC_RELAXED);
}

// All ranks took a number before they started, greater than those of all that they had launched.
uint64_t PersistentSchedule::take_number() const noexcept {
  uint64_t number = MpiProcess::instance().board().take_number();
  for (int r = 0; r < description_.size; ++r) number = std::max(number, load_acquire(starts_of(r).number));
  MpiProcess::instance().board().raise_number(number);
  return number;
}

// The last one's number first: who has that of a step sees those that join it.
void PersistentSchedule::publish_steps() noexcept {
  if (published_ == scheduled_) return;
  gc_board_starts& own = own_starts();
  __atomic_exchange_n(&own.scheduled, scheduled_, __ATOMIC_SEQ_CST);  // all see it before the number is taken
  const uint64_t number = take_number();
  for (uint64_t k = scheduled_; k > published_; --k) store(own.numbers[k % GC_BOARD_SCHEDULE], number);
  tell_starts();
  published_ = scheduled_;
}

uint64_t PersistentSchedule::started_by_all(int word) const noexcept {
  uint64_t all = ~uint64_t{0};
  for (int r = 0; r < description_.size && all; ++r) {
    const gc_board_starts& its = starts_of(r);
    all &= load_acquire(its.started[word]) ^ scheduled_starts_[word];
    all &= load_acquire(its.held[word]);  // what it has freed looks started every other time
    if (entries_.has_left(r)) return 0;
  }
  return all;
}

// A rank that sees one of the steps sees all, and so how far a launch reaches.
void PersistentSchedule::schedule_starts() noexcept {
  bool last_joins = false;
  for (int word = 0; word < kWords; ++word) {
    for (uint64_t all = started_by_all(word); all && has_room(); all &= all - 1) {
      const int slot = word * 64 + __builtin_ctzll(all);
      const bool joins = joins_[word] & bit(slot);
      append(gc_step(0, static_cast<uint32_t>(slot), joins && last_joins ? GC_STEP_JOIN : GC_STEP_START));
      scheduled_starts_[word] ^= bit(slot);
      told_[slot] = scheduled_;
      last_joins = joins;
    }
  }
  publish_steps();
}

bool PersistentSchedule::held_by_any(int slot) const noexcept {
  for (int r = 0; r < description_.size; ++r)
    if (load_acquire(starts_of(r).held[slot / 64]) & bit(slot)) return true;
  return false;
}

std::optional<int> PersistentSchedule::find_slot() noexcept {
  for (int slot = 0; slot < kSlots; ++slot)
    if (!held_by_any(slot) && all_have_read(told_[slot])) return slot;
  return {};
}

bool PersistentSchedule::schedule_place(uint64_t number) noexcept {
  if (!has_room()) return false;
  const std::optional<int> slot = find_slot();
  append(gc_step(number, static_cast<uint32_t>(slot.value_or(0)), slot ? GC_STEP_PLACE : GC_STEP_NOWHERE));
  publish_steps();
  if (!slot) return true;
  told_[*slot] = scheduled_;
  return true;
}

}  // namespace gpucoll::coll
