#include "core/comm/reclaim.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <iterator>
#include <mutex>
#include <vector>

#include "base/mutant.h"
#include "base/status.h"
#include "core/progress/proxy.h"
#include "core/progress/quiescence.h"

namespace gpucoll::core {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int64_t kExitPatienceMs = 10000;

struct Reclaim {
  std::mutex mutex;
  std::vector<std::unique_ptr<Communicator>> list;
  const pid_t owner = getpid();
};

Reclaim& retired() {
  static Reclaim* r = new Reclaim;  // outlives the process's statics: see at_exit
  return *r;
}

// Takes out what can be destroyed, so that destructors run without the lock. Memory of peers is closed and memory given
// back, for which the driver may wait until the device rests: while nothing is in flight (quiescence.h), unless `now`.
bool destroy_closed(bool now) {
  auto& [mutex, list, owner] = retired();
  const auto is_closed = [](const auto& communicator) {
    return communicator->unused() && communicator->ended() && (gc_mutant(140) != 0 || !communicator->in_graphs()) &&
           communicator->peers_closed();
  };
  const auto destroy = [&] {
    std::vector<std::unique_ptr<Communicator>> closed;
    std::lock_guard lock(mutex);
    const auto rest = std::stable_partition(list.begin(), list.end(), [&](const auto& c) { return !is_closed(c); });
    closed.assign(std::make_move_iterator(rest), std::make_move_iterator(list.end()));
    list.erase(rest, list.end());
  };
  {
    std::lock_guard lock(mutex);
    if (std::none_of(list.begin(), list.end(), is_closed)) return list.empty();
  }
  if (now || gc_mutant(140) != 0)
    destroy();
  else
    Quiescence::instance().run_if_idle(destroy);
  std::lock_guard lock(mutex);
  return list.empty();
}

bool any_retired() {
  std::lock_guard lock(retired().mutex);
  return !retired().list.empty();
}

// For the proxy, which does it as long as there are any.
void drain_retired() { destroy_closed(false); }

void nap() {
  timespec t = {0, 100'000};
  nanosleep(&t, nullptr);
}

// insists: destroys at the end of its patience, whatever is in flight.
bool drain(int64_t patience_ms, void (*idle)(), bool insists) {
  const auto deadline = Clock::now() + std::chrono::milliseconds(patience_ms);
  Quiescence::instance().release_pending();
  for (;;) {
    const bool last = Clock::now() >= deadline;
    if (destroy_closed(last && insists)) return true;
    if (last) return false;
    if (idle) idle();
    nap();
  }
}

// The device may be half torn down here: only waits until the peers no longer need this process's memory. Not in a
// child, which has none that they need, and whatever made it: the C library knows of fork() alone.
void at_exit() {
  if (getpid() != retired().owner && !gc_mutant(151)) return;
  auto deadline = Clock::now() + std::chrono::milliseconds(kExitPatienceMs);
  std::lock_guard lock(retired().mutex);
  for (auto& communicator : retired().list) {
    while (!communicator->peers_rest() && Clock::now() < deadline) nap();
  }
}

}  // namespace

void reclaim(std::unique_ptr<Communicator> communicator, int64_t patience_ms) {
  static const int registered = std::atexit(at_exit);
  (void)registered;
  {
    std::lock_guard lock(retired().mutex);
    retired().list.push_back(std::move(communicator));
  }
  if (drain(patience_ms, nullptr, false) || gc_mutant(426)) return;
  contained([&]() -> Status {
    Quiescence::instance().set_leftovers(any_retired, drain_retired);
    Proxy::instance().start();
    return {};
  }).ignore();  // without a thread the next call does it
}

bool drain_reclaimed(int64_t patience_ms, void (*idle)()) { return drain(patience_ms, idle, patience_ms > 0); }

}  // namespace gpucoll::core
