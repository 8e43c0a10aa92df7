#include "pt2pt/offer.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "mpi/datatype/address.h"
#include "mpi/staging/packed_copy.h"
#include "mpi/staging/packing.h"

namespace gpucoll::pt2pt {
namespace {

using State = proto::Offer;
using std::chrono::steady_clock;

// The slot whose data are in the outbox's bounce; one at a time.
std::atomic<const proto::OutboxSlot*> the_bounce_is_of{nullptr};

// For so long a sender waits for a receiver to take an eager message: one that waits for it already does so sooner, and
// spares the device a second copy.
constexpr auto kEagerPatience = std::chrono::microseconds(10);

// Returns whether the PML need not carry the data.
bool suits(const Peer& to, const gc_message_data& data, gc_send_mode mode, Cause* cause) {
  if (!data.on_device) return false;
  if (!__atomic_load_n(&to.outbox().uses_devices, __ATOMIC_RELAXED)) return false;
  if (data.bytes < proto::kLeastEnvelopeBytes) {
    *cause = Cause::message_tiny;
    return false;
  }
  // It ends without its receiver's next call, which a message that the receiver takes from the memory waits for.
  if (mode == GC_SEND_BUFFERED) {
    *cause = Cause::message_buffered;
    return false;
  }
  if (data.bytes < least_direct_bytes()) {
    if (data.bytes > proto::kEagerBytes) *cause = Cause::message_small;
    return data.bytes <= proto::kEagerBytes;
  }
  return data.bytes >= proto::kEnvelopeBytes;
}

// Returns whether a receiver has come.
bool is_taken(const proto::OutboxSlot& slot) {
  const State state = state_of(slot);
  return state != State::offered && state != State::matched;
}

}  // namespace

Offer::Offer(const Peer& to, proto::OutboxSlot* slot, const gc_message_data& data, gc_send_mode mode)
    : gc_transfer(to),
      slot_(slot),
      message_(data),
      must_be_taken_(data.bytes >= least_direct_bytes() ||
                     (mode == GC_SEND_SYNCHRONOUS && data.bytes >= proto::kEnvelopeBytes)),
      began_(steady_clock::now()) {
  slot_->bytes = data.bytes;
  slot_->is_eager = data.bytes < least_direct_bytes();
}

Result<std::unique_ptr<Offer>> Offer::make(const Peer& to, const gc_message_key& key, const gc_message_data& data,
                                           gc_send_mode mode, Cause* cause) {
  if (!suits(to, data, mode, cause)) return std::unique_ptr<Offer>();
  proto::OutboxSlot* const slot = Outboxes::instance().take_slot(to, key, false);
  if (!slot) {
    *cause = Cause::message_many;
    return std::unique_ptr<Offer>();
  }
  std::unique_ptr<Offer> offer(new Offer(to, slot, data, mode));
  GC_TRY(offer->put_place());
  if (!slot->has_place && !slot->is_eager) {
    *cause = Cause::message_closed_memory;
    return std::unique_ptr<Offer>();
  }
  set_state(*slot, State::offered);
  return offer;
}

// An offer that ends early was never seen by its receiver, or has failed: there, or here.
Offer::~Offer() {
  if (packed_) end_->put_memory(packed_);
  const State state = state_of(*slot_);
  if (failed != Code::ok && state != State::done && state != State::failed) {
    __atomic_store_n(&slot_->is_broken, 1u, __ATOMIC_RELEASE);
    left_ = true;
  }
  const proto::OutboxSlot* mine = slot_;
  the_bounce_is_of.compare_exchange_strong(mine, nullptr);
  if (left_)
    Outboxes::instance().leave_slot(*slot_);
  else
    Outboxes::instance().put_slot(*slot_);
}

// Puts a copy of the data to consecutive bytes at a kernel address into the queue.
Result<uint64_t> Offer::start_packing(uint8_t* to, bool to_host) {
  std::vector<proto::PackItem> items;
  GC_TRY_AS(holds_,
            coll::append_packed_copy(&items, end_->device, message_.map, message_.memory, to, message_.bytes, false));
  GC_TRY_AS(launch_, end_->copies().add(items, to_host));
  return launch_;
}

// Packs the data into device memory that others can open.
Status Offer::pack() {
  GC_TRY_AS(packed_, end_->take_memory(message_.bytes));
  GC_TRY_AS(slot_->packed_at, start_packing(packed_, false));
  end_->copies().launch();
  data_ = packed_;
  return {};
}

// Returns whether data with gaps lie in one allocation.
bool Offer::lies_in_one() const {
  const gc_type_map& map = *message_.map;
  const coll::Span span = coll::span_of(map, message_.bytes);
  const auto* const low = coll::moved(coll::kernel_origin(end_->device, message_.memory, map.true_lb), span.low);
  const gpu::PointerInfo info = end_->device.classify_kernel(low);
  const auto* const base = static_cast<const uint8_t*>(info.base);
  return base && low >= base && span.bytes <= info.bytes &&
         low - base <= static_cast<ptrdiff_t>(info.bytes - span.bytes);
}

// Tells where the layout's list of runs lies. Returns whether others can open that.
bool Offer::put_list() {
  const auto place = end_->exports.find(holds_->memory.get(), core::Exports::Use::by_kernels);
  if (!place) return false;
  proto::OutboxList& list = slot_->list;
  list = {holds_->serial, holds_->list.runs, holds_->list.starts,         place->offset,
          place->slot,    place->serial,     holds_->layout.granule_bits, {}};
  std::memcpy(list.handle, place->handle.bytes, sizeof list.handle);
  return true;
}

// Tells the layout of data with gaps, where the receiver's kernel had better gather them itself: where it can, and
// pieces are not so small that the link would carry much else, or so odd that they would go byte by byte.
Result<bool> Offer::put_layout() {
  constexpr uint64_t kLeastRun = 32;
  constexpr size_t kMostGathered = size_t{1} << 20;
  const gc_type_map& map = *message_.map;
  GC_TRY_AS(holds_, coll::TypeCache::instance().get(map, end_->device));
  const coll::TypeLayout& layout = holds_->layout;
  const auto bits =
      layout.multiples | static_cast<uint64_t>(layout.extent) | reinterpret_cast<uintptr_t>(message_.memory);
  const bool is_slow = holds_->mean_run < kLeastRun || bits % sizeof(uint32_t) != 0;
  if ((is_slow && message_.bytes > kMostGathered) || !lies_in_one()) return false;
  if (holds_->runs && !put_list()) return false;
  data_ = coll::moved(coll::kernel_origin(end_->device, message_.memory, map.true_lb), layout.first);
  slot_->layout = coll::told_layout(layout);
  slot_->has_layout = 1;
  return true;
}

// Finds the address of the data, packed if need be.
Status Offer::put_data() {
  if (!message_.map) {
    data_ = static_cast<const uint8_t*>(end_->device.kernel_address(message_.memory));
    return {};
  }
  GC_TRY_AS(const bool has_layout, put_layout());
  if (has_layout || slot_->is_eager) return {};
  return pack();
}

Status Offer::tell_place() {
  auto place = end_->exports.find(data_, core::Exports::Use::by_copies);
  slot_->kernels_only = !place;
  if (!place) place = end_->exports.find(data_, core::Exports::Use::by_kernels);
  if (!place) return {};
  slot_->has_place = 1;
  slot_->place_slot = place->slot;
  slot_->place_serial = place->serial;
  slot_->offset = place->offset;
  std::memcpy(slot_->handle, place->handle.bytes, sizeof slot_->handle);
  return {};
}

Status Offer::put_place() {
  GC_TRY_AS(gpu::Device* const device, DeviceEnd::device_of(message_, message_.bytes));
  GC_TRY_AS(end_, DeviceEnd::of(*device));
  slot_->device = end_->number;
  constexpr uint64_t kMessagesBetweenLooks = 64;
  if (slot_->serial % kMessagesBetweenLooks == 0) end_->exports.tidy();
  GC_TRY(put_data());
  if (data_) GC_TRY(tell_place());
  if (!slot_->has_layout || slot_->has_place || slot_->is_eager) return {};
  slot_->has_layout = 0;  // nobody else can open this memory
  GC_TRY(pack());
  return tell_place();
}

void Offer::fill(gc_envelope* envelope) const {
  proto::Envelope filled = {};
  const proto::Outbox& own = *Outboxes::instance().own();
  std::memcpy(filled.magic, proto::kEnvelopeMagic, sizeof filled.magic);
  filled.slot = static_cast<uint8_t>(index_of(own, *slot_));
  std::memcpy(filled.secret, own.nonce, sizeof filled.secret);
  std::memcpy(filled.nonce, own.nonce, sizeof filled.nonce);
  filled.serial = slot_->serial;
  static_assert(sizeof envelope->bytes == proto::kEnvelopeBytes);
  std::memcpy(envelope->bytes, &filled, sizeof envelope->bytes);
}

// Copies an eager message aside, once its receiver has had its time, or has asked for it. A receiver that comes before
// the copy begins takes the data from the memory, and no copy begins then: once it has them, the program may free that
// memory. The fence is the partner of the one in Take::Take().
Status Offer::drive_eager() {
  if (launch_) return {};
  const bool asked = __atomic_load_n(&slot_->by_host, __ATOMIC_ACQUIRE) || !slot_->has_place;
  if (!asked && (is_taken(*slot_) || steady_clock::now() - began_ < kEagerPatience)) return {};
  __atomic_store_n(&slot_->eager_at, proto::kEagerComes, __ATOMIC_RELAXED);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!asked && is_taken(*slot_)) return {};  // it asks if it has seen that a copy is to come
  GC_TRY_AS(const uint64_t launch, start_packing(end_->eager_of(*slot_), true));
  __atomic_store_n(&slot_->eager_at, launch, __ATOMIC_RELEASE);
  return {};
}

// Returns whether the receiver will find the data in the slot, should it come. The fence is the partner of the one in
// Take::Take().
bool Offer::may_leave() {
  if (must_be_taken_) return false;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  left_ = state_of(*slot_) != State::taken;
  return left_;
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
  bool rests = true;  // no copy reads the data
  if (launch_) {
    GC_TRY_AS(rests, end_->copies().ended(launch_));
  }
  switch (state_of(*slot_)) {
    case State::done: return rests;
    case State::failed:
      return Status::error(Code::remote, "process %d could not take a message of %llu bytes: its own error says why",
                           peer.pid, static_cast<unsigned long long>(slot_->bytes));
    default: break;
  }
  if (slot_->is_eager && launch_ && rests && may_leave()) return true;
  GC_TRY(look_at_peer());
  if (slot_->is_eager)
    GC_TRY(drive_eager());
  else if (rests && __atomic_load_n(&slot_->by_host, __ATOMIC_ACQUIRE))
    GC_TRY(slot_->has_layout && !packed_ ? pack() : feed());
  return false;
}

}  // namespace gpucoll::pt2pt
