// A message that is being sent or received straight from the sender's memory: what offers and takes have in common.
//
// Thread safety: one caller at a time.
#pragma once
#include <algorithm>

#include "abi/pt2pt.h"
#include "base/params.h"
#include "base/status.h"
#include "pt2pt/outboxes.h"

namespace gpucoll::pt2pt {

// Returns from how many bytes on a send waits for its receiver. Smaller messages are eager, as far as slots have room
// for them.
inline size_t least_direct_bytes() { return param_or(params().pt2pt_direct_bytes, proto::kEagerBytes); }

// Returns whether a launch of copies that a slot of the outbox tells has put the data where they are to be taken from.
inline bool is_past(const proto::Outbox& outbox, const proto::OutboxSlot& slot, const uint64_t& launch) {
  const uint64_t number = __atomic_load_n(&launch, __ATOMIC_ACQUIRE);
  return number && __atomic_load_n(&outbox.done[slot.device], __ATOMIC_ACQUIRE) >= number;
}

}  // namespace gpucoll::pt2pt

struct gc_transfer {
  explicit gc_transfer(const gpucoll::pt2pt::Peer& with) : peer(with) {}
  virtual ~gc_transfer() = default;
  gc_transfer(const gc_transfer&) = delete;
  gc_transfer& operator=(const gc_transfer&) = delete;

  // Returns whether it has ended, also where it fails.
  virtual gpucoll::Result<bool> advance() = 0;
  const gpucoll::pt2pt::Peer& peer;
  gpucoll::Code failed = gpucoll::Code::ok;  // once it has ended

 protected:
  // Looks now and then whether the other process lives.
  gpucoll::Status look_at_peer() {
    constexpr uint32_t kLooks = 256;
    if (++looks_ % kLooks || !is_gone(peer)) return {};
    return gpucoll::Status::error(
        gpucoll::Code::remote, "process %d has ended before a message with it was complete: see why it did", peer.pid);
  }

 private:
  uint32_t looks_ = 0;
};
