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
    : matcher_(matcher),
      entries_(matcher.entries()),
      meeting_(meeting),
      place_(place),
      idle_(idle),
      ranks_(std::move(ranks)) {
  if (ranks_.empty()) {
    ranks_.resize(static_cast<size_t>(description.size));
    std::iota(ranks_.begin(), ranks_.end(), 0);
  }
  rank_ = static_cast<int>(std::find(ranks_.begin(), ranks_.end(), description.rank) - ranks_.begin());
}

void BoardBootstrap::post(const void* mine, size_t bytes) noexcept {
  gc_board_meeting& place = entries_.own().meetings[meeting_];
  uint8_t* const part = place.parts[exchanges_ % 2];
  std::memcpy(part, mine, bytes);
  __atomic_store_n(&place.met, exchanges_, __ATOMIC_RELEASE);  // partner: part_of() of the peers
  entries_.tell({{part, (bytes + 7) / 8 * 8}, {&place.met, sizeof place.met}});
}

const uint8_t* BoardBootstrap::part_of(int rank) const noexcept {
  const gc_board_meeting& place = entries_.of(rank).meetings[meeting_];
  return __atomic_load_n(&place.met, __ATOMIC_ACQUIRE) >= exchanges_ ? place.parts[exchanges_ % 2] : nullptr;
}

Result<const uint8_t*> BoardBootstrap::await(CallWait& wait) {
  constexpr int kLooksPerCheck = 64;
  constexpr timespec kNap = {0, 20'000};
  for (int look = 1;; ++look) {
    if (const uint8_t* theirs = part_of(wait.rank)) return theirs;
    if (look % kLooksPerCheck == 0) {
      GC_TRY(matcher_.failures().usable(wait.rank));
      GC_TRY(matcher_.watch().look_around(wait));
    }
    if (idle_) idle_();
    nanosleep(&kNap, nullptr);
  }
}

Status BoardBootstrap::allgather(const void* mine, void* all, size_t bytes) {
  if (bytes > GC_BOARD_MEETING_BYTES)
    return Status::error(Code::internal, "%zu bytes are more than the arrival board has room for", bytes);
  ++exchanges_;
  post(mine, bytes);
  CallWait wait = {place_, nullptr};
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
  for (CallWait& wait : looks_) {
    GC_TRY(matcher_.failures().usable(wait.rank));
    GC_TRY(matcher_.watch().still_comes(wait));
  }
  return {};
}

}  // namespace gpucoll::coll
