// A thread of the process that gives nonblocking collectives their turns while the application computes: so that a rank
// that has come first launches when the last one comes, without calling MPI.
//
// It decides and launches, and calls neither MPI nor the application. It sleeps while nothing waits to be launched, and
// looks the less often the longer something does.
// Thread safety: any thread. Ownership: borrows what it turns, until remove().
#pragma once
#include <condition_variable>
#include <mutex>
#include <vector>

namespace gpucoll::coll {

class PendingCalls;

class Turner {
 public:
  static Turner& instance();
  // Turns `calls` until none of them is queued. The parameter progress_thread turns this off.
  void add(PendingCalls* calls);
  // After it returns the thread knows `calls` no more.
  void remove(PendingCalls* calls);

 private:
  void run();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<PendingCalls*> calls_;
  bool running_ = false, more_ = false;
};

}  // namespace gpucoll::coll
