// The persistent collectives of one MPI communicator on the board: which of them this rank has started, and the order
// in which all ranks run them, which rank 0 writes (proto/format/board.h).
//
// Thread safety: one caller at a time. Ownership: borrows the arrivals. REQUIRES of all but the constructor: some
// collective of this communicator has been on devices everywhere.
#pragma once
#include <cstdint>
#include <optional>

#include "coll/arrivals.h"

namespace gpucoll::coll {

class StartSchedule {
 public:
  static constexpr int kSlots = GC_BOARD_SLOTS;

  StartSchedule(const gc_comm_description& description, Arrivals& arrivals)
      : description_(description), arrivals_(arrivals) {}

  // This rank's slots.
  // joins: may be launched together with others. Rank 0's word counts.
  void hold(int slot, bool joins) noexcept;
  // The others learn of it by publish_starts().
  void start(int slot) noexcept;
  void publish_starts() noexcept;
  void give_back(int slot) noexcept;

  // The next step that this rank has not read; none: there is no more yet.
  struct Step {
    uint64_t what;       // gc_step
    uint64_t scheduled;  // since when it is there for all (gc_board_starts::scheduled_ns)
  };
  std::optional<Step> next();
  // Whether there is one of which rank 0 is about to tell that.
  bool is_untold() const noexcept;
  // Returns how many steps it has read.
  uint64_t read() const noexcept { return read_; }

  // Returns whether this rank may tell its application of starts that end with the first `steps` steps.
  bool may_tell(uint64_t steps) noexcept { return description_.rank != 0 || all_have_read(steps); }
  // The first rank that has not started what is in this rank's `slot`; where all have, keeps_back().
  int missing(int slot) const noexcept;
  // Rank 0, which has not scheduled what this rank waits for; or, for rank 0, who has not read all that it has: itself,
  // where all have.
  int keeps_back() const noexcept;

  // Rank 0 only. Schedules what every rank has started, at once.
  void schedule_starts() noexcept;
  // Schedules the place of what nonblocking number `number` has made. False: there is no room yet.
  bool schedule_place(uint64_t number) noexcept;

 private:
  bool all_have_read(uint64_t steps) noexcept;
  bool has_room() noexcept {
    return scheduled_ < GC_BOARD_SCHEDULE || all_have_read(scheduled_ + 1 - GC_BOARD_SCHEDULE);
  }
  void append(uint64_t step) noexcept;
  void publish_steps() noexcept;
  // Bits of a word whose slots every rank has started once more than has been scheduled.
  uint64_t started_by_all(int word) const noexcept;
  bool held_by_any(int slot) const noexcept;
  std::optional<int> find_slot() noexcept;

  const gc_comm_description& description_;
  Arrivals& arrivals_;
  uint64_t read_ = 0;
  uint64_t started_[kSlots / 64] = {};  // with those that are not published
  // For rank 0.
  uint64_t joins_[kSlots / 64] = {};
  uint64_t scheduled_ = 0, published_ = 0, read_by_all_ = 0;
  uint64_t scheduled_starts_[kSlots / 64] = {};  // `started`, as it was when it was scheduled
  uint64_t told_[kSlots] = {};                   // the last step about each slot
};

}  // namespace gpucoll::coll
