#include "core/memory/registration.h"

#include <algorithm>
#include <iterator>

#include "base/mutant.h"
#include "core/progress/quiescence.h"

namespace gpucoll::core {

std::optional<ExportedPlace> Exports::find(const void* kernel_address, Use use) {
  const gpu::PointerInfo info = device_.classify_kernel(kernel_address);
  if (!info.exportable || !info.base || (use == Use::by_copies && info.shares_block)) return std::nullopt;
  std::lock_guard lock(mutex_);
  auto it = look_up(info.base, info.buffer_id);
  if (it == regions_.end()) it = add(info.base, info.buffer_id);
  if (it == regions_.end()) return std::nullopt;
  auto& [slot, region] = *it;
  region.used = ++clock_;
  const auto offset = static_cast<const uint8_t*>(kernel_address) - static_cast<const uint8_t*>(info.base);
  return ExportedPlace{slot, region.serial, static_cast<uint64_t>(offset), region.handle};
}

std::optional<ExportedPlace> Exports::pin(const void* kernel_address, Use use) {
  auto place = find(kernel_address, use);
  if (!place) return place;
  std::lock_guard lock(mutex_);
  const auto it = regions_.find(place->slot);
  if (it == regions_.end() || it->second.serial != place->serial) return std::nullopt;  // taken away in between
  ++it->second.pins;
  return place;
}

void Exports::unpin(const ExportedPlace& place) {
  std::lock_guard lock(mutex_);
  const auto it = regions_.find(place.slot);
  if (it != regions_.end() && it->second.serial == place.serial && it->second.pins > 0) --it->second.pins;
}

void Exports::tidy() {
  std::unique_lock lock(mutex_, std::try_to_lock);  // the watchdog must not wait for one that waits for the device
  if (lock) drop_freed();
}

size_t Exports::size() const {
  std::lock_guard lock(mutex_);
  return regions_.size();
}

Exports::Regions::iterator Exports::look_up(const void* base, uint64_t buffer_id) {
  return std::find_if(regions_.begin(), regions_.end(), [&](const auto& entry) {
    return entry.second.base == base && (entry.second.buffer_id == buffer_id || gc_mutant(310));
  });
}

// regions_.end() where the driver will not export it after all: callers can do without.
Exports::Regions::iterator Exports::add(const void* base, uint64_t buffer_id) {
  auto handle = device_.export_memory(const_cast<void*>(base));
  if (!handle) return regions_.end();
  const std::optional<uint32_t> slot = take_slot();
  if (!slot) return regions_.end();
  const uint32_t serial = next_serial_++;
  // Relaxed: whoever needs it finds it in an ExportedPlace that is told later.
  __atomic_store_n(&live_[*slot], serial, __ATOMIC_RELAXED);
  return regions_.emplace(*slot, Region{base, buffer_id, ++clock_, serial, 0, *handle}).first;
}

std::optional<uint32_t> Exports::take_slot() {
  drop_freed();
  for (uint32_t slot = 0; slot < proto::kBounceSlot; ++slot)
    if (!regions_.contains(slot)) return slot;
  auto oldest = regions_.end();
  for (auto it = regions_.begin(); it != regions_.end(); ++it)
    if (!it->second.pins && (oldest == regions_.end() || it->second.used < oldest->second.used)) oldest = it;
  if (oldest == regions_.end()) return std::nullopt;
  const uint32_t slot = oldest->first;
  drop(oldest);
  return slot;
}

void Exports::drop_freed() {
  for (auto it = regions_.begin(); it != regions_.end();) {
    const auto here = it++;
    const gpu::PointerInfo now = device_.classify_kernel(here->second.base);
    if (now.base != here->second.base || now.buffer_id != here->second.buffer_id) drop(here);
  }
}

void Exports::drop(Regions::iterator it) {
  __atomic_store_n(&live_[it->first], 0u, __ATOMIC_RELAXED);
  regions_.erase(it);
}

Imports::~Imports() {
  while (!open_.empty()) set_aside(open_.begin());
  close_dropped();
}

Result<uint8_t*> Imports::open(int peer, const ExportedPlace& place) {
  auto it = open_.find({peer, place.slot});
  if (it != open_.end() && it->second.serial != place.serial && !gc_mutant(311)) {
    set_aside(it);
    it = open_.end();
  }
  if (it == open_.end()) {
    GC_TRY_AS(void* base, device_.open_memory(place.handle));
    it = open_.emplace(std::pair(peer, place.slot), Mapping{place.serial, base}).first;
  }
  return static_cast<uint8_t*>(it->second.base) + place.offset;
}

void Imports::close_dropped() {
  for (void* base : take_dropped()) device_.close_memory(base);
}

void Imports::close_dropped_at_rest(std::mutex& mutex) {
  std::unique_lock lock(mutex);
  if (!any_dropped()) return;
  lock.unlock();
  Quiescence::instance().run_at_rest([&] {
    lock.lock();
    const std::vector<void*> dropped = take_dropped();
    lock.unlock();
    for (void* base : dropped) device_.close_memory(base);
  });
}

Imports::Mappings::iterator Imports::set_aside(Mappings::iterator it) {
  dropped_.push_back(it->second.base);
  return open_.erase(it);
}

}  // namespace gpucoll::core
