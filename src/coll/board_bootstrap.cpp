#include "coll/board_bootstrap.h"

#include <cstring>
#include <ctime>

namespace gpucoll::coll {

Result<const uint8_t*> BoardBootstrap::await(Arrivals::Wait& wait) {
  constexpr int kLooksPerCheck = 64;
  constexpr timespec kNap = {0, 20'000};
  for (int look = 1;; ++look) {
    if (const uint8_t* theirs = arrivals_.met(meeting_, wait.rank, exchanges_)) return theirs;
    if (look % kLooksPerCheck == 0) GC_TRY(arrivals_.look_around(wait));
    if (idle_) idle_();
    nanosleep(&kNap, nullptr);
  }
}

Status BoardBootstrap::allgather(const void* mine, void* all, size_t bytes) {
  if (bytes > GC_BOARD_MEETING_BYTES)
    return Status::error(Code::internal, "%zu bytes are more than the arrival board has room for", bytes);
  ++exchanges_;
  arrivals_.meet(meeting_, exchanges_, mine, bytes);
  Arrivals::Wait wait = {place_, nullptr};
  for (; wait.rank < size(); ++wait.rank) {
    GC_TRY_AS(const uint8_t* theirs, await(wait));
    std::memcpy(static_cast<uint8_t*>(all) + static_cast<size_t>(wait.rank) * bytes, theirs, bytes);
  }
  return {};
}

}  // namespace gpucoll::coll
