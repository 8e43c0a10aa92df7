// Knows what this process has under way on devices. The driver may hold up some calls until a device rests: opening and
// closing memory of other processes, and freeing memory. While such a call waits, it may hold up launches as well; and
// a kernel under way may wait for the kernel of a peer whose process waits likewise. So such calls are made only while
// no launch of any communicator is under way, and none begins meanwhile.
//
// Thread safety: all functions from any thread; none waits for a device or for another rank.
// Ownership: owns what let_go() takes until it is destroyed; an object that has been added removes itself before it
// ends.
#pragma once
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <utility>
#include <vector>

namespace gpucoll::core {

class Flying {
 public:
  virtual ~Flying() = default;
  // Returns whether anything that it has launched may not have ended.
  virtual bool flies() const noexcept = 0;
};

class Flights {
 public:
  static Flights& instance() {
    // Never destroyed: the threads that use it are not, either.
    static Flights* flights = new Flights;
    return *flights;
  }
  void add(const Flying* flying) {
    std::lock_guard lock(mutex_);
    all_.push_back(flying);
  }
  void remove(const Flying* flying) {
    std::lock_guard lock(mutex_);
    std::erase(all_, flying);
  }
  // Returns a lock to hold while something is launched, until flies() counts it.
  std::shared_lock<std::shared_mutex> launching() { return std::shared_lock(gate_); }
  // Calls body() while nothing flies. Returns false at once where something does.
  template <class Body>
  bool between(const Body& body) {
    const std::unique_lock gate(gate_, std::try_to_lock);
    if (!gate.owns_lock()) return false;
    {
      std::lock_guard lock(mutex_);
      for (const Flying* flying : all_)
        if (flying->flies()) return false;
    }
    body();
    return true;
  }
  // Destroys the object while nothing flies: now, or at a later tidy(). The proxy calls tidy() now and then. Never
  // destroys it from within body().
  void let_go(std::shared_ptr<void> what) {
    {
      std::lock_guard lock(mutex_);
      kept_.push_back(std::move(what));
    }
    tidy();
  }
  // Returns whether something is still to be destroyed.
  bool keeps() {
    std::lock_guard lock(mutex_);
    return !kept_.empty();
  }
  // Destroys what let_go() took, if nothing flies.
  void tidy() {
    if (!keeps()) return;
    between([this] {
      std::vector<std::shared_ptr<void>> kept;  // destroyed without the lock
      std::lock_guard lock(mutex_);
      kept.swap(kept_);
    });
  }

 private:
  std::shared_mutex gate_;
  std::mutex mutex_;
  std::vector<const Flying*> all_;
  std::vector<std::shared_ptr<void>> kept_;
};

}  // namespace gpucoll::core
