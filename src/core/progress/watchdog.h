// One thread a process that looks after all communicators about ten times a second: dead peers, faults of peers,
// operations that wait too long. It runs only while there is something to watch.
//
// Thread safety: any function from any thread, but remove() not from within check().
#pragma once
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace gpucoll::core {

class Watched {
 public:
  virtual ~Watched() = default;
  virtual void check() noexcept = 0;
};

class Watchdog {
 public:
  static Watchdog& instance();
  void add(Watched* watched);
  // After it returns, check() of `watched` is not running and will not be called again.
  void remove(Watched* watched);

 private:
  void run();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Watched*> watched_;
  bool running_ = false;
};

}  // namespace gpucoll::core
