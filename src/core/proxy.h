// One thread a process that moves on what the host must do between other work of devices: it starts copies once both
// sides are ready. It sleeps while nothing is pending, and looks less often the longer nothing moves.
//
// Thread safety: any function from any thread, but remove() not from within progress() or tidy().
#pragma once
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
  // What may wait for the device: called only while nothing is pending in the whole process.
  virtual void tidy() noexcept = 0;
};

class Proxy {
 public:
  static Proxy& instance();
  void add(ProxyWork* work);
  // After it returns, nothing of `work` is running and nothing will be called again.
  void remove(ProxyWork* work);
  // There is something to do.
  void wake();

 private:
  using Progress = ProxyWork::Progress;
  void run();
  // What moves most of all.
  Progress go_round();
  void tidy();
  void sleep();
  void doze();

  std::mutex works_mutex_;
  std::vector<ProxyWork*> works_;
  std::mutex mutex_;  // of what follows; never held while works run
  std::condition_variable woken_up_;
  bool woken_ = false, resting_ = false, running_ = false;
};

}  // namespace gpucoll::core
