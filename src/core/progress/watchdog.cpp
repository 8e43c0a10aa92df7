#include "core/progress/watchdog.h"

#include <algorithm>
#include <chrono>

#include "base/service_thread.h"
#include "core/peer/heart.h"
#include "core/progress/proxy.h"
#include "core/progress/quiescence.h"

namespace gpucoll::core {

Watchdog& Watchdog::instance() {
  // Never destroyed: the thread may still run while the process's statics are torn down.
  static Watchdog* watchdog = new Watchdog;
  return *watchdog;
}

void Watchdog::add(Watched* watched) {
  std::lock_guard lock(mutex_);
  watched_.push_back(watched);
  if (running_) return;
  Heart::beat();                               // the pulse may be shown before the thread has begun
  service_thread([this] { run(); }).detach();  // ends by itself when nothing is left to watch
  running_ = true;                             // only now: starting a thread may fail
}

void Watchdog::remove(Watched* watched) {
  std::lock_guard lock(mutex_);
  std::erase(watched_, watched);
  changed_.notify_all();
}

void Watchdog::run() {
  std::unique_lock lock(mutex_);
  while (!watched_.empty()) {
    Heart::beat();
    for (Watched* w : watched_) w->check();
    if (Quiescence::instance().has_pending() || Quiescence::instance().has_leftovers()) Proxy::instance().wake();
    changed_.wait_for(lock, std::chrono::milliseconds(100));
  }
  Heart::rest();
  running_ = false;
}

}  // namespace gpucoll::core
