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

// Returns from how many bytes on messages are offered; an envelope is always smaller.
inline size_t least_direct_bytes() {
  constexpr size_t kUsual = size_t{4} << 10;  // what PMLs send at once, others may count on being sent at once
  const size_t wanted = param_or(params().pt2pt_direct_bytes, kUsual);
  return std::max(wanted, proto::kEnvelopeBytes + 1);
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
    constexpr uint32_t kLooks = 4096;
    if (++looks_ % kLooks || peer.liveness.alive()) return {};
    return gpucoll::Status::error(
        gpucoll::Code::remote, "process %d has ended before a message with it was complete: see why it did", peer.pid);
  }

 private:
  uint32_t looks_ = 0;
};
