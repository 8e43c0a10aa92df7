// Runs a thread of the process that gives nonblocking collectives their turns while the application computes. So a rank
// that has come first launches when the last one comes, without calling MPI.
//
// It also orders what several communicators launch. A device rests before it gives memory back, and the driver launches
// nothing meanwhile; nor does the driver launch where the kernels under way leave no room. If one rank had launched the
// first of two calls then, and another rank the second, both would wait for ever. So all ranks launch the calls of
// several communicators in one order: that in which the last rank came to each. The lines on the board say this to all
// ranks alike. A rank that can launch a call looks first, by launch_earlier(), for calls to which all ranks have come
// before and which it has not launched. It sees all of these: each rank came where others see it, and only then looked
// at the clock.
//
// The thread decides and launches, and calls neither MPI nor the application. It sleeps while nothing waits to be
// launched, and looks the less often the longer something does.
// Thread safety: any thread. Ownership: borrows what it turns, until remove().
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

namespace gpucoll::coll {

// The calls of one communicator, in a queue. Any thread.
class ProgressClient {
 public:
  virtual ~ProgressClient() = default;
  // Launches what it can, as launch_earlier() lets it, or only looks. Returns false where another thread is at it, or
  // where first_due() cannot be told yet though all ranks may have come.
  virtual bool progress() = 0;
  // Launches as progress() does, and returns whether the thread must call again.
  virtual bool progress_on_thread() = 0;
  // Returns when this rank entered the first call that may be due without first_due() saying so
  // (gc_board_line::entered_ns), or an earlier time; 0: there is none.
  virtual uint64_t first_entered() const noexcept = 0;
  // Returns when the last rank came to the first call that this rank has yet to launch. 0: none is known, or it cannot
  // be launched for so long that others must not wait for it.
  virtual uint64_t first_due() const noexcept = 0;
};

class ProgressThread {
 public:
  // After this time a call that cannot be launched no longer holds up others, nor is it held up: ranks may have called
  // in different orders, and wait for each other's connections.
  static constexpr auto kPatience = std::chrono::seconds(1);

  static ProgressThread& instance();
  // Lets launch_earlier() regard `calls` from now on. They belong to the communicator that `of` stands for.
  void register_client(ProgressClient* calls, const void* of);
  // Returns whether it knows of several communicators: with one alone, nothing can be launched out of order.
  bool several_communicators() const noexcept { return n_communicators_.load() > 1; }
  // Turns `calls`, which it knows, until none of them is queued. The parameter progress_thread turns this off, but not
  // launch_earlier().
  void add(ProgressClient* calls);
  // Gives a turn to other calls: those to which all ranks may have come before `complete`, when they had come to one of
  // `calls` (CallMatcher::complete_since). Returns false where such a call is not launched yet.
  bool launch_earlier(uint64_t complete, const ProgressClient* calls);
  // Forgets `calls`: after it returns they are not known any more.
  void remove(ProgressClient* calls);

 private:
  enum class Within { nothing, looking, launching };  // launch_earlier()
  void run();
  // These are called with the lock held.
  void progress_all();
  ProgressClient* first_before(uint64_t complete, const ProgressClient* calls) const;
  bool launch_first(uint64_t complete, const ProgressClient* calls);
  bool look_first(uint64_t complete, const ProgressClient* calls);

  std::recursive_mutex mutex_;  // what is turned may turn what was called before it
  std::condition_variable_any changed_;
  struct Known {
    ProgressClient* calls;
    const void* of;
  };
  void count();
  std::vector<Known> known_;
  std::atomic<size_t> n_communicators_{0};  // of the known calls
  std::vector<ProgressClient*> calls_;      // the calls that are turned
  bool running_ = false, more_ = false;
  Within within_ = Within::nothing;
  uint64_t looked_until_ = 0;  // while launching: all calls to which all ranks came before this time are known
};

}  // namespace gpucoll::coll
