// Knows which of this rank's lines on the board, in the order of the nonblocking collectives, others may still have to
// read.
//
// Thread safety: one caller at a time. Ownership: borrows the matcher.
// Invariant: a line is not written anew before all ranks have read what they need of it.
#pragma once
#include "coll/match/call_matcher.h"

namespace gpucoll::coll {

class LineWindow {
 public:
  explicit LineWindow(CallMatcher& matcher) : matcher_(matcher) {}

  // Returns whether number's line may be written.
  bool is_free(uint64_t number);
  bool all_free();
  // A rank that keeps number's line from being written, and the call that it is in; rank -1: none.
  struct Reader {
    int rank;
    uint64_t number;
  };
  Reader reader_of(uint64_t number) const;
  // Returns the same of any line.
  Reader reader();
  // Notes that `number` has been published with device memory.
  void keep(uint64_t number) { needed_[number % GC_BOARD_LINES] = number; }
  // Notes that `number` goes through the host: nobody needs its line.
  void let_go(uint64_t number) { needed_[number % GC_BOARD_LINES] = 0; }
  // Notes that every number up to this one has a verdict.
  void decided(uint64_t number) { decided_ = number; }

 private:
  CallMatcher& matcher_;
  uint64_t needed_[GC_BOARD_LINES] = {};  // the number whose line others may need; 0: none
  uint64_t decided_ = 0;
};

}  // namespace gpucoll::coll
