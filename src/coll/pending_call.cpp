#include "coll/pending_call.h"

#include <utility>

namespace gpucoll::coll {

void PendingCall::end_with(Status status) {
  const bool good = status.ok();
  code = guarded(name_of(call.place), [&] { return std::move(status); });
  if (is_persistent()) stage = good ? Stage::resting : Stage::failed;
  end();
}

void PendingCall::end() noexcept {
  const int ended = is_persistent() && !std::exchange(wanted, false) ? GC_READY : GC_ENDED;
  __atomic_store_n(&state, ended, __ATOMIC_RELEASE);  // partner: the skin's look
}

}  // namespace gpucoll::coll
