// Runs what communicators that do not block have begun, in a thread of its own, which ends with it.
//
// Thread safety: any thread. Ownership: the program's handle, the communicator's shares and the work own a Progress
// together. The handle's byte may go once the handle has called detach().
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "base/status.h"

namespace gpucoll::core {

// Tells what goes on for one communicator.
class Progress {
 public:
  // Bits of the handle's byte: something is under way; the making of the communicator has failed.
  static constexpr uint8_t kBusy = 1, kFailed = 2;
  explicit Progress(std::atomic<uint8_t>* shown) : shown_(shown) {}

  void begins() noexcept;
  // made: the failure is one of the making.
  void ends(const Status& status, bool made) noexcept;
  void detach() noexcept;
  // Returns why the making has failed; ok while it has not.
  Status failure() const;

  // Ends what is under way: interrupted() says `why` from now on, and what on_interrupt() has set is called.
  // on_interrupt() calls it at once where there was an interruption before; an empty one takes it back, and yet a call
  // may be under way: so it owns what it uses.
  void interrupt(const Status& why) noexcept;
  void on_interrupt(std::function<void(const Status&)> call);
  Status interrupted() const;

 private:
  mutable std::mutex mutex_;
  std::atomic<uint8_t>* shown_;
  int under_way_ = 0;
  Status failure_, interruption_;
  std::function<void(const Status&)> call_;
};

// Interrupts what goes on for one communicator, and so what has left for the background with it: all of that ends
// together.
void interrupt_work(const std::shared_ptr<Progress>& progress, const Status& why) noexcept;

// Calls work() in a thread of its own, and settle() behind it. Where the process exits meanwhile, it interrupts all
// that is `concerned`, and waits for work(), bounded. Errors: system, where no thread can be started; nothing is called
// then.
Status run_in_background(std::function<void()> work, std::function<void()> settle,
                         std::vector<std::shared_ptr<Progress>> concerned);

}  // namespace gpucoll::core
