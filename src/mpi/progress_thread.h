// Runs a thread of the process that gives nonblocking collectives their turns while the application computes. So a rank
// that has come first launches when the last one comes, without calling MPI.
//
// It also orders what several communicators launch. A device rests before it gives memory back, and the driver launches
// nothing meanwhile; nor does the driver launch where the kernels under way leave no room. If one rank had launched the
// first of two calls then, and another rank the second, both would wait for ever. So all ranks launch the calls of
// several communicators in one order: that of the numbers that all ranks of a call give it, once each is ready to
// launch it (proto/format/board.h, docs/adr/0036). A rank that can launch a call first looks, by launch_earlier(), for
// calls that have smaller numbers and that it has not launched, and launches them. It puts those that have no number
// yet behind. So a call with a number waits for calls with smaller numbers alone, and for nothing that an application
// has yet to do.
//
// The thread decides and launches, and calls neither MPI nor the application. It sleeps while nothing waits to be
// launched, and looks the less often the longer something does.
// Thread safety: any thread. Ownership: borrows what it turns, until remove().
#pragma once
#include <atomic>
#include <compare>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

namespace gpucoll::coll {

// The calls of one communicator, in a queue. Any thread.
class ProgressClient {
 public:
  virtual ~ProgressClient() = default;
  // Launches what it can, as launch_earlier() lets it, or only looks. Returns false where another thread is at it. Does
  // not wait, nor give the processor away: its caller holds locks.
  virtual bool progress() = 0;
  // Launches as progress() does, and returns whether the thread must call again.
  virtual bool progress_on_thread() = 0;
  // Returns this rank's number for the first call that it is ready for and whose number first_due() does not tell, or
  // less; 0: there is none.
  virtual uint64_t first_ready() const noexcept = 0;
  // Returns the number of the first call that this rank has yet to launch. 0: none has one.
  virtual uint64_t first_due() const noexcept = 0;
  // Sees to it that the calls whose number first_due() does not tell get greater numbers than `number`. Returns false
  // where one of them has a number already, or is about to, or where another thread is at it.
  virtual bool puts_behind(uint64_t number) = 0;
  // Sees to it that the numbers that this process gives from now on are greater than those of what this client has
  // launched. Returns false where a rank is about to tell its number.
  virtual bool catches_up() { return true; }
};

class ProgressThread {
 public:
  static ProgressThread& instance();
  // Lets launch_earlier() regard `calls` from now on. They belong to the communicator that `of` stands for. `name`
  // tells them from others, equal on all ranks: of equal numbers the one with the smaller name is first.
  void register_client(ProgressClient* calls, const void* of, uint64_t name);
  // Returns whether it knows of several communicators: with one alone, nothing can be launched out of order.
  bool several_communicators() const noexcept { return n_communicators_.load() > 1; }
  // Turns `calls`, which it knows, until none of them is queued. The parameter progress_thread turns this off, but not
  // launch_earlier().
  void add(ProgressClient* calls);
  // Lets the thread look soon again: something has changed that other ranks answer at once.
  void hurry() noexcept { hurried_.store(true, std::memory_order_relaxed); }
  // Launches what comes before call `number` of `calls`. Returns false where such a call is not launched yet, where one
  // may yet turn out to come before, or where another thread is at it: then the caller tries again later, and holds no
  // lock meanwhile that this thread or others need to go on.
  bool launch_earlier(uint64_t number, const ProgressClient* calls);
  // Forgets `calls`: after it returns they are not known any more.
  void remove(ProgressClient* calls);

 private:
  enum class Within { nothing, looking, launching };  // launch_earlier()
  void run();
  // These are called with the lock held.
  void progress_all();
  // A call's place in the launch order.
  struct Place {
    uint64_t number, name;
    auto operator<=>(const Place&) const = default;
  };
  struct Known {
    ProgressClient* calls;
    const void* of;
    uint64_t name;
  };
  uint64_t name_of(const ProgressClient* calls) const;
  ProgressClient* first_before(Place place, const ProgressClient* calls) const;
  bool launch_first(Place place, const ProgressClient* calls);
  bool look_first(Place place, const ProgressClient* calls);
  void count();
  bool caught_up();

  std::recursive_mutex mutex_;  // what is turned may turn what was called before it
  std::condition_variable_any changed_;
  std::vector<Known> known_;
  std::vector<ProgressClient*> behind_;     // whose numbers this process has yet to learn
  std::atomic<size_t> n_communicators_{0};  // of the known calls
  std::vector<ProgressClient*> calls_;      // the calls that are turned
  bool running_ = false, more_ = false;
  std::atomic<bool> hurried_{false};
  Within within_ = Within::nothing;
  Place looked_until_ = {};  // while launching: all calls that come before this are known
};

}  // namespace gpucoll::coll
