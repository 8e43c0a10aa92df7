// Waits of host code for other ranks: after each look that finds nothing, the code asks here whether to look again.
//
// Thread safety: one caller at a time; each wait makes its own. Ownership: borrows all that it is given.
#pragma once
#include <cstdint>
#include <string>

#include "core/peer/fault.h"
#include "core/peer/heart.h"
#include "core/peer/peers.h"

namespace gpucoll::core {

class PeerWait {
 public:
  // idle: called now and then, may be null. The communicator's timeout counts from the last progress().
  PeerWait(const Fault& fault, const Peers& peers, void (*idle)());

  // After a look that found nothing new from `peer`: naps a little, and is ok while there is reason to look again.
  // Errors: the communicator's fault; remote, when any rank is dead or has given up, or `peer` is closing; timed_out.
  // `what` says what this rank waits for: "its answer".
  Status check(int peer, const char* what);
  // Returns ok while there is reason to wait for anybody. Errors: the communicator's fault; remote, when any rank is
  // dead or has given up.
  Status look();
  // Something came: the waiting begins anew.
  void progress();

 private:
  Status look_around(int peer, const char* what);
  const Fault& fault_;
  const Peers& peers_;
  void (*idle_)();
  RunningClock::time_point since_;
  std::chrono::steady_clock::time_point began_;  // the same, by the clock that pauses are told by
  Status error_;                                 // told at the next call: what was waited for may have come just before
  uint32_t looks_ = 0;
  bool logged_ = false;  // that it takes long
};

}  // namespace gpucoll::core
