// Knows what this process has under way on devices. The driver may hold up some calls until a device rests: opening and
// closing memory of other processes, and freeing memory. While such a call waits, it may hold up launches as well; and
// a kernel under way may wait for the kernel of a peer whose process waits likewise. So such calls are made only while
// no launch of any communicator is under way, and none begins meanwhile.
//
// Thread safety: all functions from any thread; none waits for a device or for another rank.
// Ownership: owns what release_when_idle() takes until it is destroyed; an object that has been added removes itself
// before it ends.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/mutant.h"
#include "core/progress/launch_gate.h"

namespace gpucoll::core {

class InFlight {
 public:
  virtual ~InFlight() = default;
  // Returns whether anything that it has launched may not have ended.
  virtual bool in_flight() const noexcept = 0;
  // Returns whether a graph of the program's may begin at any time, with launches that wait for peers. Nobody knows
  // whether a graph that is there has been launched.
  virtual bool may_begin() const noexcept { return false; }
};

class Quiescence {
 public:
  static Quiescence& instance() {
    // Never destroyed: the threads that use it are not, either.
    static Quiescence* quiescence = new Quiescence;
    return *quiescence;
  }
  void add(const InFlight* work) {
    std::lock_guard lock(mutex_);
    all_.push_back(work);
  }
  void remove(const InFlight* work) {
    std::lock_guard lock(mutex_);
    std::erase(all_, work);
  }
  // Returns a pass to hold while something is launched, until in_flight() counts it.
  LaunchGate::Pass launching() { return LaunchGate::Pass(gate_); }
  // Calls body() while nothing is in flight. Returns false at once where something does.
  template <class Body>
  bool run_if_idle(const Body& body) {
    return run_unless([](const InFlight& work) { return work.in_flight() && !gc_mutant(304); }, body);
  }
  // Does so only while no graph may begin either: for a thread that comes at any time, beside a program that launches
  // graphs.
  template <class Body>
  bool run_at_rest(const Body& body) {
    return run_unless([](const InFlight& work) { return work.in_flight() || (work.may_begin() && !gc_mutant(433)); },
                      body);
  }
  // Destroys the object while nothing is in flight: now, or at a later release_pending(). The proxy calls
  // release_at_rest() now and then. Never destroys it from within body().
  void release_when_idle(std::shared_ptr<void> what) {
    {
      std::lock_guard lock(mutex_);
      kept_.push_back(std::move(what));
    }
    release_pending();
  }
  // Returns whether something is still to be destroyed.
  bool has_pending() {
    std::lock_guard lock(mutex_);
    return !kept_.empty();
  }
  // Names what else is to go when nothing is in flight: drain() tries it, and any() returns whether something is left.
  // The proxy calls drain() now and then. Neither waits.
  void set_leftovers(bool (*any)(), void (*drain)()) {
    drain_left_ = drain;
    any_left_ = any;
  }
  bool has_leftovers() const {
    const auto any = any_left_.load();
    return any && any();
  }
  void drain_leftovers() const {
    if (has_leftovers()) drain_left_.load()();
  }
  // Destroy what release_when_idle() took, if nothing is in flight, and, of the second, no graph may begin.
  void release_pending() {
    if (has_pending()) run_if_idle([this] { release_all(); });
  }
  void release_at_rest() {
    if (has_pending() && gc_mutant(467)) return release_pending();
    if (has_pending()) run_at_rest([this] { release_all(); });
  }

 private:
  template <class Keeps, class Body>
  bool run_unless(const Keeps& keeps, const Body& body) {
    const LaunchGate::Closing closed(gate_);
    if (!closed) return false;
    {
      std::lock_guard lock(mutex_);
      for (const InFlight* work : all_)
        if (keeps(*work)) return false;
    }
    body();
    return true;
  }
  void release_all() {
    std::vector<std::shared_ptr<void>> kept;  // destroyed without the lock
    std::lock_guard lock(mutex_);
    kept.swap(kept_);
  }

  LaunchGate gate_;
  std::mutex mutex_;
  std::vector<const InFlight*> all_;
  std::vector<std::shared_ptr<void>> kept_;
  std::atomic<void (*)()> drain_left_{nullptr};
  std::atomic<bool (*)()> any_left_{nullptr};
};

}  // namespace gpucoll::core
