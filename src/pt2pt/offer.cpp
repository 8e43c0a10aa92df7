#include "pt2pt/offer.h"

#include <algorithm>
#include <cstring>

#include "base/params.h"
#include "mpi/staging/packed_copy.h"

namespace gpucoll::pt2pt {
namespace {

using State = proto::Offer;

// The slot whose data are in the outbox's bounce; one at a time.
std::atomic<const proto::OutboxSlot*> the_bounce_is_of{nullptr};

}  // namespace

Result<std::unique_ptr<Offer>> Offer::make(const Peer& to, const gc_message_key& key, const gc_message_data& data) {
  const bool is_large = data.on_device && data.bytes >= least_direct_bytes();
  if (!is_large || !__atomic_load_n(&to.outbox().uses_devices, __ATOMIC_RELAXED)) return std::unique_ptr<Offer>();
  proto::OutboxSlot* const slot = Outboxes::instance().take_slot(to, key, false);
  if (!slot) return std::unique_ptr<Offer>();
  std::unique_ptr<Offer> offer(new Offer(to, slot));
  slot->bytes = data.bytes;
  GC_TRY_AS(const bool able, offer->put_place(data));
  if (!able) return std::unique_ptr<Offer>();
  set_state(*slot, State::offered);
  return offer;
}

// An offer that ends early was never seen by its receiver, or has failed there.
Offer::~Offer() {
  if (packed_) end_->put_memory(packed_);
  const proto::OutboxSlot* mine = slot_;
  the_bounce_is_of.compare_exchange_strong(mine, nullptr);
  set_state(*slot_, State::free);
}

Status Offer::pack(const gc_message_data& data) {
  GC_TRY_AS(packed_, end_->take_memory(data.bytes));
  GC_TRY_AS(const gpu::Stream stream, end_->stream());
  GC_TRY_AS(const auto holds,
            coll::start_packed_copy(end_->device, data.map, data.memory, packed_, data.bytes, false, stream));
  GC_TRY(end_->device.synchronize(stream));
  data_ = packed_;
  return {};
}

Result<bool> Offer::put_place(const gc_message_data& data) {
  GC_TRY_AS(gpu::Device* const device, DeviceEnd::device_of(data));
  GC_TRY_AS(end_, DeviceEnd::of(*device));
  constexpr uint64_t kMessagesBetweenLooks = 64;
  if (slot_->serial % kMessagesBetweenLooks == 0) end_->exports.tidy();
  data_ = static_cast<const uint8_t*>(device->kernel_address(data.memory));
  if (data.map) GC_TRY(pack(data));
  auto place = end_->exports.find(data_, core::Exports::Use::by_copies);
  slot_->kernels_only = !place;
  if (!place) place = end_->exports.find(data_, core::Exports::Use::by_kernels);
  if (!place) return false;
  slot_->device = end_->number;
  slot_->place_slot = place->slot;
  slot_->place_serial = place->serial;
  slot_->offset = place->offset;
  std::memcpy(slot_->handle, place->handle.bytes, sizeof slot_->handle);
  return true;
}

void Offer::fill(gc_envelope* envelope) const {
  proto::Envelope filled = {};
  const proto::Outbox& own = *Outboxes::instance().own();
  std::memcpy(filled.nonce, own.nonce, sizeof filled.nonce);
  std::memcpy(filled.magic, proto::kEnvelopeMagic, sizeof filled.magic);
  filled.serial = slot_->serial;
  filled.slot = static_cast<uint32_t>(slot_ - own.slot);
  static_assert(sizeof envelope->bytes == proto::kEnvelopeBytes);
  std::memcpy(envelope->bytes, &filled, sizeof envelope->bytes);
}

// Copies the next piece for a receiver that cannot open the memory.
Status Offer::feed() {
  const proto::OutboxSlot* owner = nullptr;
  if (!the_bounce_is_of.compare_exchange_strong(owner, slot_) && owner != slot_) return {};
  const uint64_t produced = slot_->produced;
  if (__atomic_load_n(&slot_->consumed, __ATOMIC_ACQUIRE) != produced || produced == slot_->bytes) return {};
  const size_t n = std::min<size_t>(slot_->bytes - produced, proto::kOutboxBounceBytes);
  GC_TRY(end_->device.copy(Outboxes::instance().own()->bounce, data_ + produced, n));
  __atomic_store_n(&slot_->produced, produced + n, __ATOMIC_RELEASE);
  return {};
}

Result<bool> Offer::advance() {
  switch (state_of(*slot_)) {
    case State::done: return true;
    case State::failed:
      return Status::error(Code::remote, "process %d could not take a message of %llu bytes: its own error says why",
                           peer.pid, static_cast<unsigned long long>(slot_->bytes));
    default: break;
  }
  GC_TRY(look_at_peer());
  if (__atomic_load_n(&slot_->by_host, __ATOMIC_ACQUIRE)) GC_TRY(feed());
  return false;
}

}  // namespace gpucoll::pt2pt
