#include "mpi/progress_thread.h"

#include <sys/prctl.h>

#include <algorithm>
#include <ctime>
#include <set>

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

void ProgressThread::register_client(ProgressClient* calls, const void* of) {
  std::lock_guard lock(mutex_);
  known_.push_back({calls, of});
  count();
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
  count();
  std::erase(calls_, calls);
}

// While all calls are looked at, none launches; then only the very first one launches. Calls that came since do not, as
// there may be others by then that nobody has looked at.
bool ProgressThread::launch_earlier(uint64_t complete, const ProgressClient* calls) {
  std::lock_guard lock(mutex_);
  if (within_ == Within::looking) return false;
  if (within_ == Within::launching) return complete < looked_until_ && !first_before(complete, calls);
  return look_first(complete, calls) && launch_first(complete, calls);
}

// The one with the first of what is known to be launched before.
ProgressClient* ProgressThread::first_before(uint64_t complete, const ProgressClient* calls) const {
  ProgressClient* first = nullptr;
  for (const auto& [other, of] : known_) {
    const uint64_t due = other->first_due();
    if (other == calls || !due || due >= complete) continue;
    first = other;
    complete = due;
  }
  return first;
}

bool ProgressThread::launch_first(uint64_t complete, const ProgressClient* calls) {
  looked_until_ = complete;
  while (ProgressClient* first = first_before(complete, calls)) {
    const uint64_t due = first->first_due();
    within_ = Within::launching;
    first->progress();
    within_ = Within::nothing;
    if (first->first_due() == due) return false;
  }
  return true;
}

bool ProgressThread::look_first(uint64_t complete, const ProgressClient* calls) {
  bool all = true;
  within_ = Within::looking;
  for (const auto& [other, of] : known_) {
    const uint64_t entered = other->first_entered();
    if (other != calls && entered && entered < complete) all &= other->progress();
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
    nap_ns = std::exchange(more_, false) ? kFirstNapNs : std::min(nap_ns + nap_ns / 8, kLongestNapNs);
    const timespec nap = {0, nap_ns};
    lock.unlock();
    nanosleep(&nap, nullptr);
    lock.lock();
  }
}

}  // namespace gpucoll::coll
