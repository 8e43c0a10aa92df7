#include "coll/match/board_bootstrap.h"

#include <algorithm>
#include <cstring>
#include <ctime>
#include <numeric>
#include <utility>

#include "base/mutant.h"

namespace gpucoll::coll {

BoardBootstrap::BoardBootstrap(const gc_comm_description& description, CallMatcher& matcher, uint32_t meeting,
                               const CallId& place, void (*idle)(), std::vector<int> ranks)
    : matcher_(matcher), meeting_(meeting), place_(place), idle_(idle), ranks_(std::move(ranks)) {
  if (ranks_.empty()) {
    ranks_.resize(static_cast<size_t>(description.size));
    std::iota(ranks_.begin(), ranks_.end(), 0);
  }
  rank_ = static_cast<int>(std::find(ranks_.begin(), ranks_.end(), description.rank) - ranks_.begin());
}

Result<const uint8_t*> BoardBootstrap::await(CallMatcher::Wait& wait) {
  constexpr int kLooksPerCheck = 64;
  constexpr timespec kNap = {0, 20'000};
  for (int look = 1;; ++look) {
    if (const uint8_t* theirs = matcher_.part_of(meeting_, wait.rank, exchanges_)) return theirs;
    if (look % kLooksPerCheck == 0) {
      GC_TRY(matcher_.usable(wait.rank));
      GC_TRY(matcher_.look_around(wait));
    }
    if (idle_) idle_();
    nanosleep(&kNap, nullptr);
  }
}

Status BoardBootstrap::allgather(const void* mine, void* all, size_t bytes) {
  if (bytes > GC_BOARD_MEETING_BYTES)
    return Status::error(Code::internal, "%zu bytes are more than the arrival board has room for", bytes);
  ++exchanges_;
  matcher_.post_part(meeting_, exchanges_, mine, bytes);
  CallMatcher::Wait wait = {place_, nullptr};
  for (size_t i = 0; i < ranks_.size(); ++i) {
    wait.rank = ranks_[i];
    GC_TRY_AS(const uint8_t* theirs, await(wait));
    std::memcpy(static_cast<uint8_t*>(all) + i * bytes, theirs, bytes);
  }
  return {};
}

Status BoardBootstrap::look() {
  if (idle_) idle_();
  if (looks_.empty() || gc_mutant(450)) {
    looks_.assign(ranks_.size(), {place_, nullptr});
    for (size_t i = 0; i < ranks_.size(); ++i) looks_[i].rank = ranks_[i];
  }
  for (CallMatcher::Wait& wait : looks_) {
    GC_TRY(matcher_.usable(wait.rank));
    GC_TRY(matcher_.still_comes(wait));
  }
  return {};
}

}  // namespace gpucoll::coll
