#include "coll/shared_gpu/group_wait.h"

#include <sched.h>

#include "base/params.h"

namespace gpucoll::coll {
namespace {

// Beyond the timeout: who waits for a rank that waits for others is more patient than this, as that one knows better
// who has not come. All of it is well within a second.
constexpr auto kPatienceOfLeaders = std::chrono::milliseconds(200), kPatience = std::chrono::milliseconds(500);
constexpr auto kBetweenLooks = std::chrono::milliseconds(10);

}  // namespace

void GroupWait::begin(bool leads, bool polite) {
  leads_ = leads;
  polite_ = polite;
  start_ = Clock::now();
}

bool GroupWait::time_to_look() {
  const auto now = Clock::now();
  if (now < next_look_) return false;
  next_look_ = now + kBetweenLooks;
  return true;
}

void GroupWait::give_way() noexcept { sched_yield(); }

Status GroupWait::what_is_wrong(int rank, const char* what, const CallId& place) const {
  GC_TRY(matcher_.failures().usable(rank));
  if (!matcher_.entries().alive(rank))
    return matcher_.failures().died_or_failed(
        rank, Status::error(Code::remote, "%s died before it %s %s on %s", matcher_.entries().rank_name(rank).c_str(),
                            what, name_of(place), description_.name)
                  .blaming());
  GC_TRY(matcher_.failures().in_mpi(rank, place));
  const auto more = leads_ ? kPatienceOfLeaders : kPatience;
  return matcher_.failures().in_time(start_, more, [&] {
    return Status::error(Code::timed_out, "rank %d has waited longer than %lld s (parameter timeout) until %s %s %s",
                         description_.rank, static_cast<long long>(params().timeout),
                         matcher_.entries().rank_name(rank).c_str(), what, name_of(place));
  });
}

}  // namespace gpucoll::coll
