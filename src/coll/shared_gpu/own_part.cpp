#include "coll/shared_gpu/own_part.h"

#include <utility>

#include "core/progress/quiescence.h"

namespace gpucoll::coll {

bool OwnPart::make_pages(gpu::Device& device, int n_ranks) {
  if (pages_) return true;
  auto made = MemberPages::create(device, n_ranks);
  if (!made) return false;
  pages_ = *std::move(made);
  device_ = &device;
  emulated_ = device.is_emulated();
  return true;
}

bool OwnPart::can_describe(const DeviceCall& call) {
  const gpu::HostBlock& pinned = call.part.packing.on_host().block();
  const AddressMap some = {static_cast<const uint8_t*>(pinned.kernel), pinned.host ? pinned.bytes : 0, nullptr};
  return pages_->can_describe(call.part.queue, some);
}

bool OwnPart::describe(const DeviceCall& call) {
  described_ = make_address_map(call.part.packing.on_host().block()) && pages_->describe(call.part.queue, address_map_);
  return described_;
}

bool OwnPart::make_address_map(const gpu::HostBlock& pinned) {
  address_map_ = {};
  if (!pinned.host) return true;
  auto memory = mapped_memory_.get(*device_, pinned.bytes);
  if (!memory) return false;
  address_map_ = {static_cast<const uint8_t*>(pinned.kernel), pinned.bytes, *memory};
  return true;
}

Result<bool> OwnPart::prepare(const DeviceCall& call, bool uploads) {
  if (!std::exchange(described_, false) && !describe(call)) return false;
  described_ = false;
  if (!address_map_.bytes || !uploads) return true;
  const PinnedCopies& pieces = call.part.packing.on_host();
  pieces.load();
  GC_TRY(device_->upload(address_map_.memory, pieces.block().host, address_map_.bytes));
  return true;
}

Status OwnPart::take_back(const DeviceCall& call) const {
  if (!address_map_.bytes) return {};
  const PinnedCopies& pieces = call.part.packing.on_host();
  return device_->copy(pieces.block().host, address_map_.memory, address_map_.bytes);
}

// The pages close memory of the members.
void OwnPart::release_when_idle() {
  if (pages_) core::Quiescence::instance().release_when_idle(std::move(pages_));
}

}  // namespace gpucoll::coll
