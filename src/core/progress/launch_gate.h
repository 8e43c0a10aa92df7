// Lets launches in, many at a time, while no one has closed it. One word counts the launches inside and has a bit for
// a closed gate, so a launch enters and leaves by one instruction each. std::shared_mutex takes some 180 for the two.
//
// Thread safety: all functions from any thread. Ownership: passes and closings end before their gate.
#pragma once
#include <atomic>
#include <cstdint>
#include <mutex>

#include "base/mutant.h"

namespace gpucoll::core {

class LaunchGate {
 public:
  // Is inside from its beginning to its end. Waits while the gate is closed.
  class [[nodiscard]] Pass {
   public:
    explicit Pass(LaunchGate& gate) noexcept : gate_(gate) { gate_.enter(); }
    ~Pass() { gate_.leave(); }
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;

   private:
    LaunchGate& gate_;
  };

  // Keeps the gate closed from its beginning to its end, if nobody is inside and nobody else closes it; never waits.
  class [[nodiscard]] Closing {
   public:
    explicit Closing(LaunchGate& gate) noexcept : gate_(gate), closed_(gate.try_close()) {}
    ~Closing() {
      if (closed_) gate_.open();
    }
    Closing(const Closing&) = delete;
    Closing& operator=(const Closing&) = delete;
    explicit operator bool() const noexcept { return closed_; }

   private:
    LaunchGate& gate_;
    const bool closed_;
  };

 private:
  static constexpr uint64_t kClosed = uint64_t{1} << 63;

  void enter() noexcept {
    // Acquire: partner is the release in open(). Who enters sees what was done while the gate was closed.
    const uint64_t before = word_.fetch_add(1, std::memory_order_acquire);
    if ((before & kClosed) && !gc_mutant(591)) wait_and_enter();
  }
  void leave() noexcept {
    // Release: partner is the acquire in try_close(). Who closes sees what was launched.
    word_.fetch_sub(1, std::memory_order_release);
  }
  void wait_and_enter() noexcept {
    leave();
    const std::lock_guard nobody_closes(closing_);
    word_.fetch_add(1, std::memory_order_acquire);
  }
  bool try_close() noexcept {
    std::unique_lock closing(closing_, std::try_to_lock);
    uint64_t nobody = 0;
    const bool closed =
        closing.owns_lock() &&
        (word_.compare_exchange_strong(nobody, kClosed, std::memory_order_acquire, std::memory_order_relaxed) ||
         gc_mutant(590));
    if (closed) closing.release();  // open() unlocks it
    return closed;
  }
  void open() noexcept {
    word_.fetch_sub(kClosed, std::memory_order_release);
    closing_.unlock();
  }

  std::atomic<uint64_t> word_{0};
  std::mutex closing_;  // who closes the gate holds it
};

}  // namespace gpucoll::core
