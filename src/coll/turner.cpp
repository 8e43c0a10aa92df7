#include "coll/turner.h"

#include <sys/prctl.h>

#include <algorithm>
#include <ctime>

#include "base/params.h"
#include "base/quiet_thread.h"
#include "coll/pending_calls.h"

namespace gpucoll::coll {
namespace {

constexpr long kFirstNapNs = 5'000, kLongestNapNs = 640'000;

}  // namespace

Turner& Turner::instance() {
  static Turner* turner = new Turner;  // never destroyed: the thread sleeps on until the process ends
  return *turner;
}

void Turner::add(PendingCalls* calls) {
  std::lock_guard lock(mutex_);
  calls_.push_back(calls);
  if (!params().progress_thread) return;
  more_ = true;
  changed_.notify_one();
  if (running_) return;
  quiet_thread([this] { run(); }).detach();
  running_ = true;  // only now: starting a thread may fail
}

void Turner::remove(PendingCalls* calls) {
  std::lock_guard lock(mutex_);
  std::erase(calls_, calls);
}

bool Turner::turn_before(uint64_t posted, const PendingCalls* calls) {
  thread_local bool within = false;  // those that are turned need not turn others
  std::lock_guard lock(mutex_);
  for (uint64_t last = 0; !within;) {
    PendingCalls* next = nullptr;
    uint64_t first = posted;
    for (PendingCalls* other : calls_) {
      const uint64_t of_other = other->first_posted();
      if (other == calls || of_other <= last || of_other >= first) continue;
      next = other;
      first = of_other;
    }
    if (!next) break;
    within = true;
    next->turn();
    within = false;
    last = first;
  }
  return std::none_of(calls_.begin(), calls_.end(), [&](const PendingCalls* other) {
    const uint64_t of_other = other->first_due();
    return other != calls && of_other && of_other < posted;
  });
}

void Turner::turn_all() {
  std::vector<PendingCalls*> settled;
  for (PendingCalls* calls : calls_)
    if (!calls->turn_on_thread()) settled.push_back(calls);
  for (PendingCalls* calls : settled) std::erase(calls_, calls);
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
