// Keeps the persistent collectives of one MPI communicator on the board: which of them this rank has started, and the
// order in which all ranks run them, which rank 0 writes (proto/format/board.h).
//
// Thread safety: one caller at a time. Ownership: borrows the matcher. REQUIRES of all but the constructor: some
// collective of this communicator has been on devices everywhere.
#pragma once
#include <cstdint>
#include <optional>

#include "coll/match/call_matcher.h"

namespace gpucoll::coll {

class PersistentSchedule {
 public:
  static constexpr int kSlots = GC_BOARD_SLOTS;

  PersistentSchedule(const gc_comm_description& description, CallMatcher& matcher)
      : description_(description), entries_(matcher.entries()), numbers_(matcher.numbers()) {}

  // Change this rank's slots.
  // Takes a slot. joins: its starts may be launched together with others. Rank 0's word counts.
  void hold(int slot, bool joins) noexcept;
  // Starts a slot's collective; publish_starts() tells the others.
  void start(int slot) noexcept;
  void publish_starts() noexcept;
  void give_back(int slot) noexcept;

  // Returns the next step that this rank has not read; none: there is no more yet.
  struct Step {
    uint64_t what;    // gc_step
    uint64_t number;  // in the launch order
  };
  std::optional<Step> next();
  // Sees to it that steps which this rank has not read get numbers greater than `number`. Returns false where there is
  // such a step already.
  bool puts_behind(uint64_t number) const noexcept;
  // Returns how many steps it has read.
  uint64_t read() const noexcept { return read_; }

  // Returns whether this rank may tell its application of starts that end with the first `steps` steps.
  bool may_tell(uint64_t steps) noexcept { return description_.rank != 0 || all_have_read(steps); }
  // Returns the first rank that has not started the collective in this rank's `slot`; where all have, keeps_back().
  int missing(int slot) const noexcept;
  // Returns the rank that keeps this one back. It is rank 0, which has not scheduled what this rank waits for. For rank
  // 0 it is a rank that has not read all steps, or rank 0 itself where all have.
  int keeps_back() const noexcept;

  // Schedules at once what every rank has started. Rank 0 only.
  void schedule_starts() noexcept;
  // Schedules the place that nonblocking number `number` has made. Returns false where there is no room yet.
  bool schedule_place(uint64_t number) noexcept;

 private:
  gc_board_starts& own_starts() const noexcept { return entries_.own().starts; }
  const gc_board_starts& starts_of(int rank) const noexcept { return entries_.of(rank).starts; }
  // Tells other nodes what is new in this rank's part. Call it after each change that others wait for.
  void tell_starts() const noexcept;
  bool all_have_read(uint64_t steps) noexcept;
  bool has_room() noexcept {
    return scheduled_ < GC_BOARD_SCHEDULE || all_have_read(scheduled_ + 1 - GC_BOARD_SCHEDULE);
  }
  void append(uint64_t step) noexcept;
  uint64_t take_number() const noexcept;
  void publish_steps() noexcept;
  // Returns the bits of a word whose slots every rank has started once more than has been scheduled.
  uint64_t started_by_all(int word) const noexcept;
  bool held_by_any(int slot) const noexcept;
  std::optional<int> find_slot() noexcept;

  const gc_comm_description& description_;
  const BoardEntries& entries_;
  const LaunchNumbers& numbers_;
  uint64_t read_ = 0;
  uint64_t started_[kSlots / 64] = {};  // including those that are not published
  // For rank 0.
  uint64_t joins_[kSlots / 64] = {};
  uint64_t scheduled_ = 0, published_ = 0, read_by_all_ = 0;
  uint64_t scheduled_starts_[kSlots / 64] = {};  // `started`, as it was when it was scheduled
  uint64_t told_[kSlots] = {};                   // the last step about each slot
};

}  // namespace gpucoll::coll
