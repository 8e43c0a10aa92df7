// What the ranks of a communicator tell each other of its end, on their pages: that they are closing, or, after a
// fault, that all their kernels have left.
//
// Thread safety: any thread. Ownership: borrows peers, fault and connections.
#pragma once
#include <cstdint>

#include "core/comm/connections.h"
#include "core/peer/fault.h"
#include "core/peer/peers.h"

namespace gpucoll::core {

class EndNotices {
 public:
  EndNotices(const Peers& peers, const Fault& fault) : peers_(peers), fault_(fault) {}

  // REQUIRES: this rank launches nothing more, and what it has launched has ended.
  void tell_closing() noexcept;
  bool tells_closing() const noexcept;
  // REQUIRES: a fault, and no kernel or copy of this rank is under way.
  void tell_left() noexcept;

  // Returns whether each peer that may have memory of this rank open is closing, has failed, or is dead. lands: copies
  // of peers come into this rank's memory. with_graphs: no graph of the peers may be launched any more; else the peers
  // count that rest (Communicator::peers_rest).
  bool have_ended(const Connections& connections, bool lands, bool with_graphs) const noexcept;
  // Waits a little, after a fault, until the kernels of the peers have left: they may still store into this rank's
  // buffers, which its program may free next. since_ns: the peers get their time from then on (monotonic_ns()).
  void await_left(const Connections& connections, int64_t since_ns) const noexcept;

 private:
  const Peers& peers_;
  const Fault& fault_;
};

}  // namespace gpucoll::core
