// The outbox of this process, and those of others (proto/format/outbox.h).
//
// Thread safety: any thread. Ownership: live until the process ends; outboxes of others are mapped once and kept.
#pragma once
#include <sched.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "abi/pt2pt.h"
#include "base/monotonic.h"
#include "base/mutant.h"
#include "base/shared_memory.h"
#include "core/peer/liveness.h"
#include "mpi/mpi_process.h"
#include "proto/format/outbox.h"

namespace gpucoll::pt2pt {

// Another process of this node, or this one.
struct Peer {
  SharedMemory memory;
  core::Liveness liveness;
  int pid = 0;
  int index = 0;  // among those that this process knows
  uint64_t id = 0;
  mutable int64_t looked_at_ns = 0;  // when somebody looked whether it lives
  proto::Outbox& outbox() const { return *static_cast<proto::Outbox*>(memory.data()); }
};

// Returns the number of a slot of an outbox.
inline uint32_t index_of(const proto::Outbox& outbox, const proto::OutboxSlot& slot) {
  return static_cast<uint32_t>(&slot - outbox.slot);
}
// Looks whether the peer lives: a system call, so now and then only.
inline bool is_gone(const Peer& peer) {
  constexpr int64_t kNsBetweenLooks = 20'000'000;
  const int64_t now = monotonic_ns();
  if (now - __atomic_load_n(&peer.looked_at_ns, __ATOMIC_RELAXED) < kNsBetweenLooks) return false;
  if (!peer.liveness.alive()) return true;
  __atomic_store_n(&peer.looked_at_ns, now, __ATOMIC_RELAXED);
  return false;
}

inline proto::Offer state_of(const proto::OutboxSlot& slot) {
  return static_cast<proto::Offer>(__atomic_load_n(&slot.state, __ATOMIC_ACQUIRE));
}
// Release: partner of state_of().
inline void set_state(proto::OutboxSlot& slot, proto::Offer state) {
  __atomic_store_n(&slot.state, static_cast<uint32_t>(state), __ATOMIC_RELEASE);
}

class Outboxes {
 public:
  static Outboxes& instance();
  // Returns the peer behind a blob; null where messages to and from it go through the PML.
  const Peer* find(const gc_process_blob* blob);
  // Returns the peer with this index.
  const Peer& at(int index);
  // Returns this process's own; null where it has none.
  proto::Outbox* own();
  uint64_t own_id() const;
  // Takes a free slot for a message, and gives it the next serial number; null where all are taken.
  proto::OutboxSlot* take_slot(const Peer& to, const gc_message_key& key, bool plain);
  // Gives a slot back: at once, or, where its receiver is still to come, once that has ended the message.
  void put_slot(proto::OutboxSlot& slot) { set_state(slot, proto::Offer::free); }
  void leave_slot(const proto::OutboxSlot& slot);
  // Returns the slot of `from` with the least serial number that is offered to this process under this key and that
  // `which` wants, or null.
  template <class Which>
  proto::OutboxSlot* oldest(const Peer& from, const gc_message_key& key, const Which& which) const {
    proto::OutboxSlot* found = nullptr;
    for (proto::OutboxSlot& slot : from.outbox().slot)
      // Looked at twice: it may be another message by then.
      if (which(slot) && is_under(slot, key) && which(slot) && (!found || slot.serial < found->serial)) found = &slot;
    return found;
  }
  // Leads the slot that oldest() returns on to the state next(slot), and returns it. Two threads that receive messages
  // of one key at once so lead on two slots.
  template <class Which, class Next>
  proto::OutboxSlot* lead_on(const Peer& from, const gc_message_key& key, const Which& which, const Next& next) {
    std::unique_lock lock(leading_, std::defer_lock);
    if (!gc_mutant(486)) lock.lock();
    proto::OutboxSlot* const slot = oldest(from, key, which);
    if (gc_mutant(486)) sched_yield();
    if (slot) set_state(*slot, next(*slot));
    return slot;
  }
  // Ends the message of a slot that its envelope names. Returns whether the slot still was what `is` wants: a thread
  // that has no envelope in its hands may have taken it for its own.
  template <class Is>
  bool end_named(proto::OutboxSlot& slot, const Is& is) {
    std::lock_guard lock(leading_);
    if (!is(slot)) return false;
    set_state(slot, proto::Offer::done);
    return true;
  }

 private:
  bool is_under(const proto::OutboxSlot& slot, const gc_message_key& key) const {
    return slot.to == own_id() && slot.context == key.context && slot.tag == key.tag;
  }

  std::mutex leading_;
  std::mutex mutex_;
  std::map<uint64_t, std::unique_ptr<Peer>> peers_;  // by the outbox's inode; null: out of reach
  bool is_free(proto::OutboxSlot& slot);

  bool left_[proto::kOutboxSlots] = {};  // by the sender
  uint64_t serials_ = 0;
  uint32_t next_ = 0;
};

}  // namespace gpucoll::pt2pt
