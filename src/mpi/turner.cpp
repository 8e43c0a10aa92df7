#include "mpi/turner.h"

#include <sys/prctl.h>

#include <algorithm>
#include <ctime>
#include <set>

#include "base/params.h"
#include "base/quiet_thread.h"

namespace gpucoll::coll {
namespace {

constexpr long kFirstNapNs = 5'000, kLongestNapNs = 640'000;

}  // namespace

Turner& Turner::instance() {
  static Turner* turner = new Turner;  // never destroyed: the thread sleeps on until the process ends
  return *turner;
}

void Turner::know(Turned* calls, const void* of) {
  std::lock_guard lock(mutex_);
  known_.push_back({calls, of});
  count();
}

void Turner::count() {
  std::set<const void*> all;
  for (const Known& known : known_) all.insert(known.of);
  n_communicators_.store(all.size());
}

void Turner::add(Turned* calls) {
  std::lock_guard lock(mutex_);
  calls_.push_back(calls);
  if (!params().progress_thread) return;
  more_ = true;
  changed_.notify_one();
  if (running_) return;
  quiet_thread([this] { run(); }).detach();
  running_ = true;  // only now: starting a thread may fail
}

void Turner::remove(Turned* calls) {
  std::lock_guard lock(mutex_);
  std::erase_if(known_, [calls](const Known& known) { return known.calls == calls; });
  count();
  std::erase(calls_, calls);
}

// While all calls are looked at, none launches; then only the very first one launches. Calls that came since do not, as
// there may be others by then that nobody has looked at.
bool Turner::turn_before(uint64_t complete, const Turned* calls) {
  std::lock_guard lock(mutex_);
  if (within_ == Within::looking) return false;
  if (within_ == Within::launching) return complete < looked_until_ && !first_before(complete, calls);
  return look_before(complete, calls) && launch_before(complete, calls);
}

// The one with the first of what is known to be launched before.
Turned* Turner::first_before(uint64_t complete, const Turned* calls) const {
  Turned* first = nullptr;
  for (const auto& [other, of] : known_) {
    const uint64_t due = other->first_due();
    if (other == calls || !due || due >= complete) continue;
    first = other;
    complete = due;
  }
  return first;
}

bool Turner::launch_before(uint64_t complete, const Turned* calls) {
  looked_until_ = complete;
  while (Turned* first = first_before(complete, calls)) {
    const uint64_t due = first->first_due();
    within_ = Within::launching;
    first->turn();
    within_ = Within::nothing;
    if (first->first_due() == due) return false;
  }
  return true;
}

bool Turner::look_before(uint64_t complete, const Turned* calls) {
  bool all = true;
  within_ = Within::looking;
  for (const auto& [other, of] : known_) {
    const uint64_t entered = other->first_entered();
    if (other != calls && entered && entered < complete) all &= other->turn();
  }
  within_ = Within::nothing;
  return all;
}

void Turner::turn_all() {
  std::vector<Turned*> settled;
  for (Turned* calls : calls_)
    if (!calls->turn_on_thread()) settled.push_back(calls);
  for (Turned* calls : settled) std::erase(calls_, calls);
}

void Turner::run() {
  prctl(PR_SET_TIMERSLACK, 1000);  // else a nap takes 50 us at least
  long nap_ns = kFirstNapNs;
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return !calls_.empty(); });
    turn_all();
    nap_ns = std::exchange(more_, false) ? kFirstNapNs : std::min(nap_ns + nap_ns / 8, kLongestNapNs);
    const timespec nap = {0, nap_ns};
    lock.unlock();
    nanosleep(&nap, nullptr);
    lock.lock();
  }
}

}  // namespace gpucoll::coll
