#include "core/comm/end_notices.h"

#include <ctime>

namespace gpucoll::core {

void EndNotices::tell_closing() noexcept {
  // Release: all that our kernels wrote into peers' memory has been written. Partner: Peers::closing.
  __atomic_store_n(&peers_.own_page().closing, 1u, __ATOMIC_RELEASE);
  peers_.publish();
}

bool EndNotices::tells_closing() const noexcept {
  return __atomic_load_n(&peers_.own_page().closing, __ATOMIC_RELAXED) != 0;
}

void EndNotices::tell_left() noexcept {
  __atomic_store_n(&peers_.own_page().left, 1u, __ATOMIC_RELEASE);  // partner: Peers::left
}

bool EndNotices::have_ended(const Connections& connections, bool lands, bool with_graphs) const noexcept {
  // After a fault, copies into landing memory still come until they have left. Kernels of this process, too, and those
  // of graphs may be launched again: they reach this rank's memory at its own address.
  for (int r = 0; r < peers_.size(); ++r) {
    if (!connections.reach(r) || (!with_graphs && fault_.raised() && peers_.silent(r))) continue;
    const bool held = peers_.held(r);
    const bool until_left = lands || held || peers_.in_this_process(r);
    if (!(until_left ? peers_.left(r) : peers_.gone(r)) || (held && with_graphs)) return false;
  }
  return true;
}

// Each peer learns of the fault from its watchdog, its kernels leave when they next wait, and its watchdog tells.
void EndNotices::await_left(const Connections& connections, int64_t since_ns) const noexcept {
  constexpr int64_t kPatienceNs = 2'000'000'000;
  constexpr timespec kNap = {0, 1'000'000};
  const auto all_left = [&] {
    for (int r = 0; r < peers_.size(); ++r)
      if (connections.reach(r) && !peers_.left(r) && !peers_.silent(r)) return false;
    return true;
  };
  while (!all_left() && fault_.age_ns(since_ns) < kPatienceNs) nanosleep(&kNap, nullptr);
}

}  // namespace gpucoll::core
