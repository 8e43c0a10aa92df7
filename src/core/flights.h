// What of this process is under way on devices, for what the driver may hold up until a device rests: opening and
// closing memory of other processes, and giving memory back. While it waits, it may hold up launches as well; and a
// kernel that is under way may wait for a peer's kernel, whose process waits likewise. So that is done only where no
// launch of any communicator is under way, and none begins meanwhile.
//
// Thread safety: all functions from any thread; none waits for a device or for another rank. Ownership: of what is to
// be let go, until it is; who has been added removes itself before it ends.
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
  // Whether anything that it has launched may not have ended.
  virtual bool flies() const noexcept = 0;
};

class Flights {
 public:
  static Flights& instance() {
    // Never destroyed, as the threads that use it.
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
  // Held while something is launched, until it counts as flying.
  std::shared_lock<std::shared_mutex> launching() { return std::shared_lock(gate_); }
  // Calls body() between flights. False, at once, where there are some.
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
  // Destroys it between flights: now, or at a later tidy(), of which the proxy makes some. Not from within body().
  void let_go(std::shared_ptr<void> what) {
    {
      std::lock_guard lock(mutex_);
      kept_.push_back(std::move(what));
    }
    tidy();
  }
  // Whether something is still to be let go.
  bool keeps() {
    std::lock_guard lock(mutex_);
    return !kept_.empty();
  }
  // Lets it go, where nothing flies.
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
