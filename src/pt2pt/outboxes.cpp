#include "pt2pt/outboxes.h"

#include <algorithm>

#include "base/log.h"

namespace gpucoll::pt2pt {

using coll::MpiProcess;
using proto::Offer;

Outboxes& Outboxes::instance() {
  static Outboxes* outboxes = new Outboxes;  // other threads may still use it while statics are torn down
  return *outboxes;
}

proto::Outbox* Outboxes::own() { return static_cast<proto::Outbox*>(MpiProcess::instance().outbox().data()); }
uint64_t Outboxes::own_id() const { return MpiProcess::instance().outbox().name().inode; }

const Peer* Outboxes::find(const gc_process_blob* blob) {
  if (!blob || !own()) return nullptr;
  const std::optional<SharedMemoryName> name = MpiProcess::instance().outbox_of(*blob);
  if (!name) return nullptr;
  const log::Later lines;
  std::lock_guard lock(mutex_);
  const auto [it, is_new] = peers_.try_emplace(name->inode);
  if (!is_new) return it->second.get();
  auto memory = SharedMemory::open(*name);
  auto liveness = core::Liveness::of(name->pid);
  if (!memory || !liveness) {
    log::write(log::Level::info, "messages with process %d go through the PML: %s", name->pid,
               (memory ? liveness.status() : memory.status()).what());
    return nullptr;
  }
  it->second = std::make_unique<Peer>();
  *it->second = {*std::move(memory), *std::move(liveness), name->pid, static_cast<int>(peers_.size()), name->inode};
  return it->second.get();
}

const Peer& Outboxes::at(int index) {
  std::lock_guard lock(mutex_);
  const auto found = std::find_if(peers_.begin(), peers_.end(),
                                  [&](const auto& entry) { return entry.second && entry.second->index == index; });
  return *found->second;
}

void Outboxes::leave_slot(const proto::OutboxSlot& slot) {
  std::lock_guard lock(mutex_);
  left_[index_of(*own(), slot)] = true;
}

// REQUIRES: the lock.
bool Outboxes::is_free(proto::OutboxSlot& slot) {
  const Offer state = state_of(slot);
  if (state == Offer::free) return true;
  bool& left = left_[index_of(*own(), slot)];
  if (!left || (state != Offer::done && state != Offer::failed)) return false;
  left = false;
  return true;
}

proto::OutboxSlot* Outboxes::take_slot(const Peer& to, const gc_message_key& key, bool plain) {
  proto::Outbox* const outbox = own();
  std::lock_guard lock(mutex_);
  const uint32_t first = plain ? 0 : proto::kOutboxPlainSlots;
  const uint32_t n = plain ? proto::kOutboxPlainSlots : proto::kOutboxSlots - proto::kOutboxPlainSlots;
  for (uint32_t i = 0; i < n; ++i) {
    proto::OutboxSlot& slot = outbox->slot[first + next_++ % n];
    if (!is_free(slot)) continue;
    slot.serial = ++serials_;
    slot.to = to.id;
    slot.context = key.context;
    slot.tag = key.tag;
    slot.plain = plain;
    slot.by_host = slot.is_eager = slot.has_place = slot.has_layout = slot.is_broken = 0;
    slot.packed_at = slot.eager_at = slot.list.serial = 0;
    slot.produced = slot.consumed = 0;
    set_state(slot, Offer::filled);
    return &slot;
  }
  return nullptr;
}

}  // namespace gpucoll::pt2pt
