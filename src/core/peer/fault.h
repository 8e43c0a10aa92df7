// The fault latch of a communicator. Whoever sees first that the communicator cannot go on sets it, once; every wait
// loop sees it.
//
// Host code asks raised(). Kernels read FaultLatch::abort in host memory mapped for them. Other ranks of the node read
// the code on this rank's control page, with a sentence about the first cause. They pass the sentence on unchanged, so
// every rank knows who is at fault, however it learns of the fault. Ranks of other nodes are sent the page before this
// rank's program learns of the fault, as the program may end then.
// Thread safety: any thread, any function.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

#include "base/status.h"
#include "proto/format/peer.h"
#include "proto/format/plan.h"

namespace gpucoll::core {

// Returns what the other ranks say where `who` cannot go on: the cause in `why` if it names one, or that `who` gave up.
Status given_up(const std::string& who, const Status& why);

// Returns the failure of a communicator of that name as its program is told it; as it is where the name is empty.
Status named(const Status& status, const std::string& name);

class Fault {
 public:
  // Sets the pages that raise() writes to. They must outlive this object or be taken away with attach(null, null).
  // self: names this rank for the peers. A fault of its own is told under this name; one that it passes on is not.
  // of: names the communicator for this rank's own program; empty: it has no name. tell: sends the page to the ranks of
  // other nodes; neither waits nor fails.
  void attach(proto::FaultLatch* for_kernels, proto::ControlPage* for_peers, std::string self = {}, std::string of = {},
              std::function<void()> tell = {});

  // The first call wins; later ones change nothing. REQUIRES: !status.ok().
  void raise(const Status& status) noexcept;
  // Keeps later faults out of this rank's log: it has closed in order, and what comes of the others is theirs to tell.
  void close() noexcept;
  bool raised() const noexcept { return raised_.load(std::memory_order_acquire); }
  // Returns for how long all who must leave have known of it, from since_ns on. REQUIRES: raised().
  int64_t age_ns(int64_t since_ns) const noexcept;
  // Returns ok until a fault is raised.
  Status status() const;

 private:
  void write_text(const Status& status) noexcept;
  void tell_peers(const Status& status) noexcept;
  void end_kernels() noexcept;
  std::atomic<bool> raised_{false};  // released after status_ and raised_ns_ are written; every reader acquires
  int64_t raised_ns_ = 0;
  mutable std::mutex mutex_;
  bool closed_ = false;
  Status status_;
  proto::FaultLatch* latch_ = nullptr;
  proto::ControlPage* page_ = nullptr;
  std::string self_, of_;
  std::function<void()> tell_;
};

}  // namespace gpucoll::core
