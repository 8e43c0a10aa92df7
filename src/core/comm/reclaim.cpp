#include "core/comm/reclaim.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <functional>
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
  std::atomic<size_t> left{0};             // of the list, and those that a thread destroys; written under the mutex
  std::atomic<size_t> being_destroyed{0};  // likewise
  std::atomic<bool> proxy_tries{false};    // to destroy some
  std::atomic<uint64_t> through{0};        // counts the times that a thread was through with either
  std::atomic<uint64_t> waited_at{~uint64_t{0}};  // what `through` was when it was last waited for in vain
  const pid_t owner = getpid();
};

Reclaim& retired() {
  static Reclaim* r = new Reclaim;  // outlives the process's statics: see at_exit
  return *r;
}

bool is_closed(const std::unique_ptr<Communicator>& communicator) {
  return communicator->unused() && communicator->ended() && (gc_mutant(140) != 0 || !communicator->in_graphs()) &&
         communicator->peers_closed();
}

bool any_closed() {
  std::lock_guard lock(retired().mutex);
  return std::any_of(retired().list.begin(), retired().list.end(), is_closed);
}

// Destroys what is closed, without the lock: what it has taken out counts until it is gone.
void destroy_closed() {
  Reclaim& all = retired();
  std::vector<std::unique_ptr<Communicator>> closed;
  {
    std::lock_guard lock(all.mutex);
    const auto rest = std::stable_partition(all.list.begin(), all.list.end(), std::not_fn(is_closed));
    closed.assign(std::make_move_iterator(rest), std::make_move_iterator(all.list.end()));
    all.list.erase(rest, all.list.end());
    all.being_destroyed += closed.size();
    if (gc_mutant(431)) all.left -= closed.size();
  }
  const size_t destroyed = closed.size();
  closed.clear();
  std::lock_guard lock(all.mutex);
  all.being_destroyed -= destroyed;
  if (!gc_mutant(431)) all.left -= destroyed;
  ++all.through;
}

// Memory of peers is closed and memory given back, for which the driver may wait until the device rests: while nothing
// is in flight (quiescence.h), unless `now`.
void try_to_destroy(bool now) {
  if (!any_closed()) return;
  if (now || gc_mutant(140) != 0)
    destroy_closed();
  else
    Quiescence::instance().run_if_idle(destroy_closed);
}

// For the watchdog, which must not wait for a lock, and the proxy, which does it as long as there are any.
bool any_retired() { return retired().left != 0; }

void drain_retired() {
  retired().proxy_tries = true;
  if (any_closed()) Quiescence::instance().run_at_rest(destroy_closed);
  retired().proxy_tries = false;
  ++retired().through;
}

void nap() {
  timespec t = {0, 100'000};
  nanosleep(&t, nullptr);
}

// Waits, bounded, for what another thread destroys. What has been waited for in vain is not waited for again: a program
// may give many communicators back beside it.
void await_others() {
  constexpr auto kPatience = std::chrono::seconds(1);
  Reclaim& all = retired();
  if (all.waited_at == all.through && !gc_mutant(462)) return;
  const auto deadline = Clock::now() + kPatience;
  const auto others = [&] { return all.being_destroyed != 0 || all.proxy_tries; };
  while (others() && Clock::now() < deadline) nap();
  if (others()) all.waited_at = all.through.load();
}

// Tries again after others: whoever gives the last one back finds none left. A thread that holds the gate for a moment
// may have nothing in flight.
void destroy_after_others() {
  constexpr int kMoreTries = 20;
  await_others();
  for (int i = 0; i < kMoreTries && any_closed(); ++i) {
    try_to_destroy(false);
    if (retired().left != 0) nap();
  }
}

// Returns whether some may go yet: what a failed communicator had launched behind other work, and has not begun since,
// perhaps never does.
bool any_may_go() {
  std::lock_guard lock(retired().mutex);
  const auto is_stuck = [](const auto& communicator) { return communicator->is_stuck() && !gc_mutant(463); };
  return retired().being_destroyed != 0 || !std::all_of(retired().list.begin(), retired().list.end(), is_stuck);
}

// insists: destroys at the end of its patience, whatever is in flight, and waits no longer than a little for those that
// are stuck.
bool drain(int64_t patience_ms, void (*idle)(), bool insists) {
  constexpr int64_t kStuckPatienceMs = 1000;
  const auto begin = Clock::now();
  const auto is_over = [&](int64_t ms) { return Clock::now() - begin >= std::chrono::milliseconds(ms); };
  Quiescence::instance().release_pending();
  for (;;) {
    const bool last =
        is_over(patience_ms) || (insists && is_over(std::min(patience_ms, kStuckPatienceMs)) && !any_may_go());
    try_to_destroy(last && insists);
    if (retired().left == 0) return true;
    if (last) break;
    if (idle) idle();
    nap();
  }
  destroy_after_others();
  return retired().left == 0 || (insists && !any_may_go());
}

bool all_peers_rest() {
  std::lock_guard lock(retired().mutex);
  const auto& list = retired().list;
  return std::all_of(list.begin(), list.end(), [](const auto& communicator) { return communicator->peers_rest(); });
}

// The device may be half torn down here: only waits until the peers no longer need this process's memory, and until
// nothing is being destroyed. Not in a child, which has none that they need, and whatever made it: the C library knows
// of fork() alone.
void at_exit() {
  if (getpid() != retired().owner && !gc_mutant(151)) return;
  const auto deadline = Clock::now() + std::chrono::milliseconds(kExitPatienceMs);
  while ((!all_peers_rest() || retired().being_destroyed != 0) && Clock::now() < deadline) nap();
}

}  // namespace

void reclaim(std::unique_ptr<Communicator> communicator, int64_t patience_ms) {
  static const int registered = std::atexit(at_exit);
  (void)registered;
  {
    std::lock_guard lock(retired().mutex);
    retired().list.push_back(std::move(communicator));
    ++retired().left;
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
