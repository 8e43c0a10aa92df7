// A thread of the process that gives nonblocking collectives their turns while the application computes: so that a rank
// that has come first launches when the last one comes, without calling MPI.
//
// A device rests before it gives memory back, and the driver launches nothing meanwhile: if one rank had launched the
// first of two calls when its application frees memory, and another one the second, both would wait for ever. So each
// rank launches in the order in which its application has called, as far as the other ranks have come: turn_before().
//
// It decides and launches, and calls neither MPI nor the application. It sleeps while nothing waits to be launched, and
// looks the less often the longer something does.
// Thread safety: any thread. Ownership: borrows what it turns, until remove().
#pragma once
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

namespace gpucoll::coll {

class PendingCalls;

class Turner {
 public:
  static Turner& instance();
  // Turns `calls` until none of them is queued. The parameter progress_thread turns this off, but not turn_before().
  void add(PendingCalls* calls);
  // Gives a turn to all others whose first call was made before the one numbered `posted`, of `calls`, in that order.
  // False where one that all ranks have come to is not launched yet.
  bool turn_before(uint64_t posted, const PendingCalls* calls);
  // After it returns the thread knows `calls` no more.
  void remove(PendingCalls* calls);

 private:
  void run();
  void turn_all();              // REQUIRES: lock held
  std::recursive_mutex mutex_;  // what is turned may turn what was called before it
  std::condition_variable_any changed_;
  std::vector<PendingCalls*> calls_;
  bool running_ = false, more_ = false;
};

}  // namespace gpucoll::coll
