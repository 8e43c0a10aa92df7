// The fault latch of a communicator: set once, by whoever sees first that it cannot go on; seen by every wait loop.
//
// Host code asks raised(); kernels read FaultLatch::abort in host memory mapped for them; other ranks of the node
// read the code on this rank's control page. Thread safety: any thread, any function.
#pragma once
#include <atomic>
#include <mutex>

#include "base/status.h"
#include "proto/format/peer.h"
#include "proto/format/plan.h"

namespace gpucoll::core {

class Fault {
 public:
  // Both are written when the latch is set; they must outlive it or be taken away with attach(null, null).
  void attach(proto::FaultLatch* for_kernels, proto::ControlPage* for_peers);

  // The first call wins; later ones change nothing. REQUIRES: !status.ok().
  void raise(const Status& status) noexcept;
  bool raised() const noexcept { return raised_.load(std::memory_order_acquire); }
  // ok until raised.
  Status status() const;

 private:
  std::atomic<bool> raised_{false};  // released after status_ is written; every reader acquires
  mutable std::mutex mutex_;
  Status status_;
  proto::FaultLatch* latch_ = nullptr;
  proto::ControlPage* page_ = nullptr;
};

}  // namespace gpucoll::core
