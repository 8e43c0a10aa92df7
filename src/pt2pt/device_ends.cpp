#include "pt2pt/device_ends.h"

#include <bit>
#include <cstring>

#include "core/progress/quiescence.h"
#include "gpu/program_copies.h"
#include "mpi/datatype/address.h"
#include "mpi/staging/program_memory.h"

namespace gpucoll::pt2pt {
namespace {

// After so many messages an end looks for memory that was freed.
constexpr uint64_t kMessagesBetweenLooks = 64;
// Bytes of a block of packed data: at least, and of one that is kept when nobody needs it; and of all that are kept.
constexpr size_t kLeastBlock = size_t{1} << 16, kMostSpare = size_t{64} << 20, kMostSpares = 4 * kMostSpare;

// By their numbers. Kept, as devices may be gone when the process ends.
struct Ends {
  std::mutex mutex;
  std::atomic<uint32_t> n = 0;
  DeviceEnd* end[proto::kOutboxDevices] = {};
};
Ends& all_ends() {
  static auto* const ends = new Ends;
  return *ends;
}

}  // namespace

Result<DeviceEnd*> DeviceEnd::of(gpu::Device& device) {
  Ends& ends = all_ends();
  const auto known = [&]() -> DeviceEnd* {
    const uint32_t n = ends.n.load(std::memory_order_acquire);
    for (uint32_t i = 0; i < n; ++i)
      if (&ends.end[i]->device == &device) return ends.end[i];
    return nullptr;
  };
  if (DeviceEnd* const end = known()) return end;
  std::lock_guard lock(ends.mutex);
  if (DeviceEnd* const end = known()) return end;
  const uint32_t number = ends.n;
  if (number >= proto::kOutboxDevices)
    return Status::error(Code::unsupported, "messages of more than %u devices in one process", proto::kOutboxDevices);
  auto made = std::make_unique<DeviceEnd>(device, number, Outboxes::instance().own()->live[number]);
  GC_TRY(made->begin());
  ends.end[number] = made.release();
  ends.n.store(number + 1, std::memory_order_release);
  return ends.end[number];
}

void DeviceEnd::launch_copies() {
  Ends& ends = all_ends();
  const uint32_t n = ends.n.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < n; ++i) ends.end[i]->copies_->launch();
}

Status DeviceEnd::begin() {
  proto::Outbox* const own = Outboxes::instance().own();
  GC_TRY_AS(const gpu::HostBlock block, device.register_host(own, sizeof *own));
  outbox_ = static_cast<proto::Outbox*>(block.kernel);
  GC_TRY_AS(copies_, coll::CopyQueue::create(device, {&own->done[number], &outbox_->done[number]}));
  std::memcpy(own->uuid[number], device.identity().uuid, sizeof own->uuid[number]);
  return {};
}

uint8_t* DeviceEnd::eager_of(const proto::OutboxSlot& slot) const {
  return outbox_->eager[index_of(*Outboxes::instance().own(), slot)];
}

Result<gpu::Device*> DeviceEnd::device_of(const gc_message_data& data, size_t bytes, gpu::MemoryKind* kind) {
  GC_TRY_AS(gpu::Platform* const platform, gpu::platform());
  if (!data.on_device) return platform->open(platform->current_device());
  coll::ProgramMemory memory = {data.memory, false};
  if (data.map) memory = coll::await_program_copies(coll::elements_of(*data.map, data.memory, bytes));
  const gpu::PointerInfo info = platform->classify(memory.on_device);
  GC_TRY(data.map ? coll::check_allocated(*platform, *data.map, data.memory, bytes)
                  : coll::check_allocated(*platform, info, data.memory, bytes));
  gpu::await_program_copies(memory.on_device, info);
  if (kind) *kind = memory.has_managed ? gpu::MemoryKind::managed : info.kind;
  return platform->open(info.device >= 0 ? info.device : platform->current_device());
}

Result<uint8_t*> DeviceEnd::open(const Peer& peer, uint32_t of, const core::ExportedPlace& place, bool* idle) {
  const int owner = peer.index * static_cast<int>(proto::kOutboxDevices) + static_cast<int>(of);
  std::lock_guard lock(mutex_);
  *idle = true;
  if (imports_.has(owner, place)) return imports_.open(owner, place);
  const bool is_same = !std::memcmp(peer.outbox().uuid[of], device.identity().uuid, sizeof *peer.outbox().uuid);
  if (is_same && &peer.outbox() != Outboxes::instance().own() && !device.shares_between_processes())
    copies_->never_stay();
  Result<uint8_t*> opened = nullptr;
  *idle = core::Quiescence::instance().run_if_idle([&] {
    if (++opens_ % kMessagesBetweenLooks == 0) close_freed();
    opened = imports_.open(owner, place);
  });
  return opened;
}

// REQUIRES: mutex_ is held, and nothing is in flight.
void DeviceEnd::close_freed() {
  constexpr auto kDevices = static_cast<int>(proto::kOutboxDevices);
  imports_.drop_freed(
      [](int owner) { return Outboxes::instance().at(owner / kDevices).outbox().live[owner % kDevices]; });
  imports_.close_dropped();
}

Result<gpu::Stream> DeviceEnd::stream() {
  std::lock_guard lock(mutex_);
  if (!stream_) {
    GC_TRY_AS(stream_, device.create_stream());
  }
  return stream_;
}

Result<gpu::Stream> DeviceEnd::stream_of_pieces(bool sends) {
  std::lock_guard lock(mutex_);
  gpu::Stream& stream = stream_of_pieces_[sends];
  if (!stream) {
    GC_TRY_AS(stream, device.create_stream());
  }
  return stream;
}

Status DeviceEnd::synchronize() {
  GC_TRY_AS(const gpu::Stream stream, this->stream());
  return device.synchronize(stream);
}

Result<gpu::Event> DeviceEnd::take_event() {
  std::lock_guard lock(mutex_);
  if (events_.empty()) return device.create_event();
  const gpu::Event event = events_.back();
  events_.pop_back();
  return event;
}

void DeviceEnd::put_event(gpu::Event event) {
  std::lock_guard lock(mutex_);
  events_.push_back(event);
}

Result<uint8_t*> DeviceEnd::take_memory(size_t bytes) {
  const size_t wanted = std::bit_ceil(std::max(bytes, kLeastBlock));
  std::lock_guard lock(mutex_);
  uint8_t* memory = nullptr;
  if (const auto spare = spare_.find(wanted); spare != spare_.end()) {
    memory = spare->second;
    spare_.erase(spare);
    spare_bytes_ -= wanted;
  } else {
    GC_TRY_AS(void* const made, device.allocate(wanted));
    memory = static_cast<uint8_t*>(made);
  }
  taken_[memory] = wanted;
  return memory;
}

// Memory of a size that is in use now is kept rather than that of another one.
void DeviceEnd::put_memory(uint8_t* memory) {
  std::lock_guard lock(mutex_);
  const auto taken = taken_.find(memory);
  if (taken == taken_.end()) return;
  const size_t bytes = taken->second;
  taken_.erase(taken);
  if (bytes > kMostSpare) return release(memory);
  for (auto other = spare_.begin(); other != spare_.end() && spare_bytes_ + bytes > kMostSpares;) {
    if (other->first == bytes) {
      other = spare_.upper_bound(bytes);
      continue;
    }
    release(other->second);
    spare_bytes_ -= other->first;
    other = spare_.erase(other);
  }
  if (spare_bytes_ + bytes > kMostSpares) return release(memory);
  spare_.emplace(bytes, memory);
  spare_bytes_ += bytes;
}

void DeviceEnd::release(uint8_t* memory) {
  core::Quiescence::instance().release_when_idle({memory, [&d = device](void* gone) { d.release(gone); }});
}

}  // namespace gpucoll::pt2pt
