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
#include "core/launch/graph_memory.h"
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
  std::atomic<bool> exiting{false};        // the proxy begins no destruction any more
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

bool is_over_for_the_proxy() { return retired().exiting && !gc_mutant(430); }

// Destroys what is closed, without the lock: what it has taken out counts until it is gone.
void destroy_closed(bool by_proxy) {
  Reclaim& all = retired();
  std::vector<std::unique_ptr<Communicator>> closed;
  {
    std::lock_guard lock(all.mutex);
    if (by_proxy && is_over_for_the_proxy()) return;
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
}

// Memory of peers is closed and memory given back, for which the driver may wait until the device rests: while nothing
// is in flight (quiescence.h), unless `now`.
void try_to_destroy(bool now, bool by_proxy) {
  if (!any_closed()) return;
  if (now || gc_mutant(140) != 0)
    destroy_closed(by_proxy);
  else
    Quiescence::instance().run_if_idle([=] { destroy_closed(by_proxy); });
}

// For the watchdog, which must not wait for a lock, and the proxy, which does it as long as there are any.
bool any_retired() { return retired().left != 0 && !is_over_for_the_proxy(); }

// Nobody knows whether a graph that is there has been launched, and will begin: the gate would be held meanwhile.
void drain_retired() {
  if (is_over_for_the_proxy() || any_graph()) return;
  retired().proxy_tries = true;
  try_to_destroy(false, true);
  retired().proxy_tries = false;
}

void nap() {
  timespec t = {0, 100'000};
  nanosleep(&t, nullptr);
}

// Waits, bounded, for what another thread destroys, and tries again: whoever gives the last one back finds none left.
// A thread that holds the gate for a moment may have nothing in flight.
bool destroy_after_others() {
  constexpr auto kPatience = std::chrono::seconds(1);
  constexpr int kMoreTries = 20;
  const auto deadline = Clock::now() + kPatience;
  const auto others = [] { return retired().being_destroyed != 0 || retired().proxy_tries; };
  while (others() && Clock::now() < deadline) nap();
  for (int i = 0; i < kMoreTries && any_closed(); ++i) {
    try_to_destroy(false, false);
    if (retired().left != 0) nap();
  }
  return retired().left == 0;
}

// insists: destroys at the end of its patience, whatever is in flight.
bool drain(int64_t patience_ms, void (*idle)(), bool insists) {
  const auto deadline = Clock::now() + std::chrono::milliseconds(patience_ms);
  Quiescence::instance().release_pending();
  for (;;) {
    const bool last = Clock::now() >= deadline;
    try_to_destroy(last && insists, false);
    if (retired().left == 0) return true;
    if (last) return destroy_after_others();
    if (idle) idle();
    nap();
  }
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
  retired().exiting = true;
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
