// Does work that waits for other ranks on a thread of its own, for a caller that must not wait.
//
// Thread safety: one caller at a time. Ownership: owns the thread. The work uses what the caller has: the caller calls
// finish() before that goes.
#pragma once
#include <atomic>
#include <optional>
#include <thread>
#include <utility>

#include "base/service_thread.h"
#include "base/status.h"

namespace gpucoll::coll {

class BackgroundTask {
 public:
  BackgroundTask() = default;
  ~BackgroundTask() { finish(); }
  BackgroundTask(const BackgroundTask&) = delete;
  BackgroundTask& operator=(const BackgroundTask&) = delete;

  // Returns whether there is work whose result nobody has taken.
  bool any() const noexcept { return thread_.joinable(); }
  // Begins work, a function that returns Result<bool>. REQUIRES: !any().
  template <class Work>
  void start(const Work& work) {
    ended_.store(false, std::memory_order_relaxed);
    thread_ = service_thread([this, work] {
      result_ = contained(work);
      ended_.store(true, std::memory_order_release);  // partner: take_result()
    });
  }
  // Returns the work's result, once; nothing while it is under way. REQUIRES: any().
  std::optional<Result<bool>> take_result() {
    if (!ended_.load(std::memory_order_acquire)) return {};
    thread_.join();
    return std::move(result_);
  }
  // Waits for the end of the work, if there is any, and forgets it. The work's own waits are bounded.
  void finish() {
    if (any()) thread_.join();
  }

 private:
  std::thread thread_;
  std::atomic<bool> ended_{false};
  Result<bool> result_ = false;
};

}  // namespace gpucoll::coll
