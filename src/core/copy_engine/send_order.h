// Chooses which of the messages that wait for their copies goes next. Each message has a turn, and is ready or not.
// Messages go in the order of their turns: where all ranks keep step, one other rank at a time writes to each device,
// and that is twice as fast as when all write to one (docs/measurements). But the order is a preference: a ready
// message goes out of turn once nothing has been under way for a part of the time that its own copy takes.
//
// Thread safety: none. Pure but for the time since when it holds a message back.
#pragma once
#include <chrono>
#include <cstdint>
#include <optional>

#include "base/mutant.h"

namespace gpucoll::core {

class SendOrder {
 public:
  using Clock = std::chrono::steady_clock;
  struct Candidate {
    uint64_t turn;
    uint64_t bytes;
    bool ready;
    int peer;
  };

  // One look offers all candidates, in any order; then next() returns whose message goes, if any does. busy: copies are
  // under way.
  void offer(const Candidate& candidate) {
    if (!first_ || candidate.turn < first_->turn) first_ = candidate;
    if (candidate.ready && (!ready_ || candidate.turn < ready_->turn || gc_mutant(303))) ready_ = candidate;
  }
  std::optional<int> next(bool busy, Clock::time_point now) {
    const std::optional<Candidate> first = take(first_), ready = take(ready_);
    if (ready && (ready->turn == first->turn || has_waited(*ready, busy, now))) {
      held_since_.reset();
      return ready->peer;
    }
    if (!ready || busy) held_since_.reset();
    return {};
  }

  // Returns a quarter of the time of a copy at about 400 GB/s.
  static constexpr std::chrono::nanoseconds patience(uint64_t bytes) {
    return std::chrono::nanoseconds(bytes / 1600 < 1'000'000 ? bytes / 1600 : 1'000'000);
  }

 private:
  static std::optional<Candidate> take(std::optional<Candidate>& from) {
    const std::optional<Candidate> taken = from;
    from.reset();
    return taken;
  }
  bool has_waited(const Candidate& ready, bool busy, Clock::time_point now) {
    if (busy) return false;
    if (!held_since_) held_since_ = now;
    return now - *held_since_ >= patience(ready.bytes) || gc_mutant(302);
  }

  std::optional<Candidate> first_, ready_;  // of this look
  std::optional<Clock::time_point> held_since_;
};

}  // namespace gpucoll::core
