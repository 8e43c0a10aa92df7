// Runs one thread a process for the host's work between the work of devices: it starts copies once both sides are
// ready. It sleeps while nothing is pending, and looks less often the longer nothing moves.
//
// Thread safety: any function from any thread, but remove() not from within progress() or tidy().
#pragma once
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

namespace gpucoll::core {

class ProxyWork {
 public:
  virtual ~ProxyWork() = default;
  enum class Progress {
    none_pending,
    watching,  // nothing to be done, unless something fails
    waiting,   // for something that should come soon, or before the next message begins
    moved
  };
  // Does what can be done without waiting.
  virtual Progress progress() noexcept = 0;
  // Does what may wait for the device. Called only while nothing is pending in the whole process, and not once it
  // exits.
  virtual void tidy() noexcept = 0;
};

class Proxy {
 public:
  static Proxy& instance();
  void add(ProxyWork* work);
  // Starts the thread, for what it does when nothing is pending. add() does so, too.
  void start();
  // Removes `work`. Once it has returned, nothing of `work` runs, and nothing will be called again.
  void remove(ProxyWork* work);
  // Tells the thread that there is something to do.
  void wake();
  // Returns whether a round of its works has taken longer than any does by itself. Then another thread of the process
  // is in a function of CUDA that waits until the device rests, such as cudaFree, and lets nobody start anything
  // meanwhile.
  bool is_kept_out() const noexcept;
  static constexpr int64_t kKeptOutNs = 1'000'000'000;
  // Ends for good what may wait for the device, and waits, bounded, for what has begun. At the process's exit, before
  // the device's runtime ends.
  static void end_at_exit();

 private:
  using Progress = ProxyWork::Progress;
  void run();
  // Calls progress() of all works, and returns the answer of the one that is furthest on.
  Progress go_round();
  void tidy();
  void sleep();
  void doze();

  std::mutex works_mutex_;
  std::vector<ProxyWork*> works_;
  std::atomic<int64_t> round_since_ns_{0};  // since when a round has been going on; 0: none is
  std::mutex mutex_;                        // guards what follows; never held while works run
  std::condition_variable woken_up_;
  bool woken_ = false, resting_ = false, running_ = false;
  std::atomic<bool> tidies_{false}, exiting_{false};
  const pid_t owner_ = getpid();
};

}  // namespace gpucoll::core
