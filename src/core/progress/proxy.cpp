#include "core/progress/proxy.h"

#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>

#include "base/monotonic.h"
#include "base/mutant.h"
#include "base/service_thread.h"
#include "core/progress/quiescence.h"

namespace gpucoll::core {
namespace {

using Clock = std::chrono::steady_clock;

// How long it looks on after the last message: waking up takes as long as moving megabytes.
constexpr auto kLinger = std::chrono::microseconds(300);

// A large copy may take no longer than a few naps: looks all the time at first. Later what a nap costs is little of
// what has been waited for anyway.
void wait_a_little(Clock::duration waited) {
  using namespace std::chrono_literals;
  if (waited < 4ms) {
    sched_yield();
    return;
  }
  const auto nap = std::min<std::chrono::nanoseconds>(waited / 400, 1ms);
  const timespec time = {0, static_cast<long>(nap.count())};
  nanosleep(&time, nullptr);
}

}  // namespace

Proxy& Proxy::instance() {
  // Never destroyed: the thread may still run while the process's statics are torn down.
  static Proxy* proxy = new Proxy;
  return *proxy;
}

void Proxy::start() {
  std::lock_guard lock(mutex_);
  if (running_) return;
  service_thread([this] { run(); }).detach();
  running_ = true;  // only now: starting a thread may fail
  std::atexit(end_at_exit);
}

void Proxy::add(ProxyWork* work) {
  start();
  std::lock_guard lock(works_mutex_);
  works_.push_back(work);
}

void Proxy::remove(ProxyWork* work) {
  std::lock_guard lock(works_mutex_);
  std::erase(works_, work);
}

void Proxy::wake() {
  std::lock_guard lock(mutex_);
  woken_ = true;
  if (resting_) woken_up_.notify_one();  // a system call, which the caller's messages would wait for
}

Proxy::Progress Proxy::go_round() {
  std::lock_guard lock(works_mutex_);
  auto most = Progress::none_pending;
  round_since_ns_.store(monotonic_ns(), std::memory_order_relaxed);
  for (ProxyWork* work : works_) most = std::max(most, work->progress());
  round_since_ns_.store(0, std::memory_order_relaxed);
  return most;
}

bool Proxy::is_kept_out() const noexcept {
  const int64_t since = round_since_ns_.load(std::memory_order_relaxed);
  return since != 0 && monotonic_ns() - since > kKeptOutNs;
}

void Proxy::tidy() {
  tidies_ = true;
  if (!exiting_ || gc_mutant(430)) {
    {
      std::lock_guard lock(works_mutex_);
      for (ProxyWork* work : works_) work->tidy();
    }
    Quiescence::instance().release_at_rest();  // what goes may be a work
    Quiescence::instance().drain_leftovers();
  }
  tidies_ = false;
}

// Sequentially consistent: either the thread sees that the process exits, or this one that it tidies. Not in a child,
// which does not have the thread.
void Proxy::end_at_exit() {
  constexpr auto kPatience = std::chrono::seconds(10);
  constexpr timespec kNap = {0, 100'000};
  Proxy& proxy = instance();
  if (getpid() != proxy.owner_) return;
  proxy.exiting_ = true;
  const auto deadline = Clock::now() + kPatience;
  while (proxy.tidies_ && Clock::now() < deadline) nanosleep(&kNap, nullptr);
}

void Proxy::sleep() {
  std::unique_lock lock(mutex_);
  resting_ = true;
  woken_up_.wait(lock, [this] { return woken_; });
  woken_ = resting_ = false;
}

void Proxy::doze() {
  std::unique_lock lock(mutex_);
  resting_ = true;
  woken_up_.wait_for(lock, std::chrono::milliseconds(1), [this] { return woken_; });
  woken_ = resting_ = false;
}

void Proxy::run() {
  pthread_setname_np(pthread_self(), "gpucoll-proxy");
  prctl(PR_SET_TIMERSLACK, 1000UL);  // ns: naps are short
  auto before = Progress::none_pending;
  for (Clock::time_point changed = Clock::now();;) {
    const Progress progress = go_round();
    const auto now = Clock::now();
    if (progress != before || progress == Progress::moved) changed = now;
    before = progress;
    if (progress == Progress::waiting) {
      wait_a_little(now - changed);
    } else if (now - changed < kLinger) {
      sched_yield();
    } else if (progress == Progress::watching) {
      doze();
    } else if (progress == Progress::none_pending) {
      tidy();
      sleep();
    }
  }
}

}  // namespace gpucoll::core
