// The fault latch of a communicator: set once, by whoever sees first that it cannot go on; seen by every wait loop.
//
// Host code asks raised(); kernels read FaultLatch::abort in host memory mapped for them; other ranks of the node
// read the code on this rank's control page, with a sentence about the first cause, which they pass on as it is: so who
// is at fault is known on every rank, however it came to know. Thread safety: any thread, any function.
#pragma once
#include <atomic>
#include <mutex>
#include <string>

#include "base/status.h"
#include "proto/format/peer.h"
#include "proto/format/plan.h"

namespace gpucoll::core {

// Returns what the other ranks say where `who` cannot go on: about who is at fault, where `why` is, or that it gave up.
Status given_up(const std::string& who, const Status& why);

class Fault {
 public:
  // Both are written when the latch is set; they must outlive it or be taken away with attach(null, null).
  // self: who this rank is, for the peers: what is its own fault, and not one that it passes on, is told as such.
  void attach(proto::FaultLatch* for_kernels, proto::ControlPage* for_peers, std::string self = {});

  // The first call wins; later ones change nothing. REQUIRES: !status.ok().
  void raise(const Status& status) noexcept;
  bool raised() const noexcept { return raised_.load(std::memory_order_acquire); }
  // ok until raised.
  Status status() const;

 private:
  void write_text(const Status& status) noexcept;
  std::atomic<bool> raised_{false};  // released after status_ is written; every reader acquires
  mutable std::mutex mutex_;
  Status status_;
  proto::FaultLatch* latch_ = nullptr;
  proto::ControlPage* page_ = nullptr;
  std::string self_;
};

}  // namespace gpucoll::core
