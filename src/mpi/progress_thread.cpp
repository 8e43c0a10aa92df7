#include "mpi/progress_thread.h"

#include <sched.h>
#include <sys/prctl.h>

#include <algorithm>
#include <ctime>
#include <set>

#include "base/mutant.h"
#include "base/params.h"
#include "base/service_thread.h"

namespace gpucoll::coll {
namespace {

constexpr long kFirstNapNs = 5'000, kLongestNapNs = 640'000;

}  // namespace

ProgressThread& ProgressThread::instance() {
  static ProgressThread* thread = new ProgressThread;  // never destroyed: the thread sleeps on until the process ends
  return *thread;
}

void ProgressThread::register_client(ProgressClient* calls, const void* of, uint64_t name) {
  {
    std::lock_guard lock(mutex_);
    const bool one = n_communicators_.load() == 1;
    known_.push_back({calls, of, name});
    count();
    if (one && several_communicators()) {
      behind_.clear();
      for (const Known& other : known_)
        if (other.calls != calls) behind_.push_back(other.calls);
    }
  }
  while (!caught_up()) sched_yield();
}

// A process that used one communicator alone did not learn all numbers. It does so before it gives another number, and
// without the lock meanwhile, as a process on another node may have to answer. That ends: a rank that is ready tells
// its number at once, or dies, or has not answered for `timeout`.
bool ProgressThread::caught_up() {
  std::lock_guard lock(mutex_);
  std::erase_if(behind_, [](ProgressClient* other) { return other->catches_up(); });
  return behind_.empty();
}

void ProgressThread::count() {
  std::set<const void*> all;
  for (const Known& known : known_) all.insert(known.of);
  n_communicators_.store(all.size());
}

void ProgressThread::add(ProgressClient* calls) {
  std::lock_guard lock(mutex_);
  calls_.push_back(calls);
  if (!params().progress_thread) return;
  more_ = true;
  changed_.notify_one();
  if (running_) return;
  service_thread([this] { run(); }).detach();
  running_ = true;  // only now: starting a thread may fail
}

void ProgressThread::remove(ProgressClient* calls) {
  std::lock_guard lock(mutex_);
  std::erase_if(known_, [calls](const Known& known) { return known.calls == calls; });
  std::erase(behind_, calls);
  count();
  std::erase(calls_, calls);
}

uint64_t ProgressThread::name_of(const ProgressClient* calls) const {
  const auto known = std::find_if(known_.begin(), known_.end(), [&](const Known& k) { return k.calls == calls; });
  return known == known_.end() ? 0 : known->name;
}

// While all calls are looked at, none launches; then only the very first one launches. Calls that came since do not, as
// there may be others by then that nobody has looked at.
bool ProgressThread::launch_earlier(uint64_t number, const ProgressClient* calls) {
  std::unique_lock lock(mutex_, std::defer_lock);
  // A thread that waited here would keep the queue of `calls` from the one that has the lock.
  if (gc_mutant(162))
    lock.lock();
  else if (!lock.try_lock())
    return false;
  if (within_ == Within::looking) return false;
  const Place place = {number, name_of(calls)};
  if (within_ == Within::launching) return place < looked_until_ && !first_before(place, calls);
  return look_first(place, calls) && launch_first(place, calls);
}

// The one with the first of what is known to be launched before.
ProgressClient* ProgressThread::first_before(Place place, const ProgressClient* calls) const {
  ProgressClient* first = nullptr;
  for (const Known& other : known_) {
    const Place due = {other.calls->first_due(), other.name};
    if (other.calls == calls || !due.number || due >= place) continue;
    first = other.calls;
    place = due;
  }
  return first;
}

bool ProgressThread::launch_first(Place place, const ProgressClient* calls) {
  looked_until_ = place;
  while (ProgressClient* first = first_before(place, calls)) {
    const uint64_t due = first->first_due();
    within_ = Within::launching;
    first->progress();
    within_ = Within::nothing;
    if (first->first_due() == due) return gc_mutant(160) != 0;
  }
  return true;
}

bool ProgressThread::look_first(Place place, const ProgressClient* calls) {
  bool all = true;
  within_ = Within::looking;
  for (const Known& other : known_) {
    const uint64_t ready = other.calls->first_ready();
    if (other.calls == calls || !ready || ready > place.number) continue;
    all &= other.calls->progress() && (gc_mutant(161) || other.calls->puts_behind(place.number));
  }
  within_ = Within::nothing;
  return all;
}

void ProgressThread::progress_all() {
  std::vector<ProgressClient*> settled;
  for (ProgressClient* calls : calls_)
    if (!calls->progress_on_thread()) settled.push_back(calls);
  for (ProgressClient* calls : settled) std::erase(calls_, calls);
}

void ProgressThread::run() {
  prctl(PR_SET_TIMERSLACK, 1000);  // else a nap takes 50 us at least
  long nap_ns = kFirstNapNs;
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return !calls_.empty(); });
    progress_all();
    const bool hurried = hurried_.exchange(false, std::memory_order_relaxed);
    nap_ns = std::exchange(more_, false) || hurried ? kFirstNapNs : std::min(nap_ns + nap_ns / 8, kLongestNapNs);
    const timespec nap = {0, nap_ns};
    lock.unlock();
    nanosleep(&nap, nullptr);
    lock.lock();
  }
}

}  // namespace gpucoll::coll
