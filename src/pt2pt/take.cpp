#include "pt2pt/take.h"

#include <algorithm>
#include <cstring>

#include "base/log.h"
#include "base/mutant.h"
#include "mpi/staging/packed_copy.h"
#include "mpi/staging/pinned_pool.h"

namespace gpucoll::pt2pt {
namespace {

using State = proto::Offer;

// For so long a take waits until it may open memory. Then it asks for the data: what is in flight here may wait for a
// rank that waits for this message.
constexpr auto kOpeningPatience = std::chrono::milliseconds(5);
// From so many bytes on copy engines are as fast as kernels, and leave the multiprocessors to the program.
constexpr size_t kLeastByEngine = size_t{4} << 20;

}  // namespace

Take::Take(const Peer& from, proto::OutboxSlot& slot, const gc_message_data& target)
    : gc_transfer(from),
      slot_(slot),
      target_(target),
      bytes_(std::min<size_t>(slot.bytes, target.bytes) - (gc_mutant(211) ? 1 : 0)),
      began_(std::chrono::steady_clock::now()) {
  set_state(slot_, State::taken);
}

Take::~Take() {
  if (event_) end_->put_event(event_);
  if (gathered_) coll::PinnedPool::instance().put(gathered_);
  set_state(slot_, way_ == Way::done ? State::done : State::failed);
}

// Stores packed bytes of host memory.
Status Take::store(const void* packed) {
  if (!target_.on_device) {
    if (packed != target_.memory) std::memcpy(target_.memory, packed, bytes_);
    return {};
  }
  if (target_.map)
    return coll::copy_packed(end_->device, *target_.map, target_.memory, const_cast<void*>(packed), bytes_, true);
  return end_->device.copy(target_.memory, packed, bytes_);
}

Status Take::open() {
  if (bytes_ == 0) {
    way_ = Way::done;
    return {};
  }
  GC_TRY_AS(gpu::Device* const device, DeviceEnd::device_of(target_));
  GC_TRY_AS(end_, DeviceEnd::of(*device));
  bool idle = false;
  Result<uint8_t*> source = end_->open(peer, slot_, &idle);
  if (!idle) return std::chrono::steady_clock::now() - began_ < kOpeningPatience ? Status() : ask_for_bounce();
  if (!source) {
    log::write(log::Level::info, "messages of process %d go through host memory: %s", peer.pid, source.status().what());
    return ask_for_bounce();
  }
  return start_copy(*source);
}

Status Take::start_copy(const uint8_t* source) {
  gpu::Device& device = end_->device;
  if (gc_mutant(210)) return ask_for_bounce();  // which must be right as well
  auto* const from = const_cast<uint8_t*>(source);
  GC_TRY_AS(const gpu::Stream stream, end_->stream());
  if (!target_.on_device) {
    if (slot_.kernels_only) return ask_for_bounce();
    GC_TRY(device.copy_async(target_.memory, from, bytes_, stream));
  } else if (target_.map || slot_.kernels_only || bytes_ < kLeastByEngine) {
    GC_TRY_AS(holds_, coll::start_packed_copy(device, target_.map, target_.memory, from, bytes_, true, stream));
  } else {
    GC_TRY(device.copy_async(device.kernel_address(target_.memory), from, bytes_, stream));
  }
  GC_TRY_AS(event_, end_->take_event());
  GC_TRY(device.record(event_, stream));
  way_ = Way::copying;
  return {};
}

Status Take::look_at_copy() {
  GC_TRY_AS(const bool there, end_->device.reached(event_));
  if (there) way_ = Way::done;
  return {};
}

Status Take::ask_for_bounce() {
  if (target_.on_device) {
    gathered_ = static_cast<uint8_t*>(coll::PinnedPool::instance().get(&end_->device, bytes_));
    if (!gathered_) return Status::error(Code::out_of_memory, "no %zu bytes of host memory for a message", bytes_);
  }
  way_ = Way::by_host;
  __atomic_store_n(&slot_.by_host, 1u, __ATOMIC_RELEASE);
  return {};
}

Status Take::take_from_bounce() {
  GC_TRY(look_at_peer());
  const uint64_t produced = __atomic_load_n(&slot_.produced, __ATOMIC_ACQUIRE), consumed = slot_.consumed;
  if (produced == consumed) return {};
  uint8_t* const target = gathered_ ? gathered_ : static_cast<uint8_t*>(target_.memory);
  if (consumed < bytes_)
    std::memcpy(target + consumed, peer.outbox().bounce, std::min<size_t>(produced, bytes_) - consumed);
  __atomic_store_n(&slot_.consumed, produced, __ATOMIC_RELEASE);
  if (produced < bytes_) return {};
  GC_TRY(store(target));
  way_ = Way::done;
  return {};
}

Result<bool> Take::advance() {
  switch (way_) {
    case Way::opening: GC_TRY(open()); break;
    case Way::copying: GC_TRY(look_at_copy()); break;
    case Way::by_host: GC_TRY(take_from_bounce()); break;
    case Way::done: break;
  }
  return way_ == Way::done;
}

}  // namespace gpucoll::pt2pt
