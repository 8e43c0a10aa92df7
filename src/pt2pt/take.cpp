#include "pt2pt/take.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>

#include "base/mutant.h"
#include "mpi/message_causes.h"
#include "mpi/staging/packed_copy.h"
#include "mpi/staging/packing.h"
#include "mpi/staging/pinned_pool.h"
#include "mpi/staging/program_memory.h"

namespace gpucoll::pt2pt {
namespace {

using State = proto::Offer;

// For so long a take waits until it may open memory. Then it asks for the data: what is in flight here may wait for a
// rank that waits for this message.
constexpr auto kOpeningPatience = std::chrono::milliseconds(5);
// From so many bytes on copy engines are as fast as kernels, and leave the multiprocessors to the program.
constexpr size_t kLeastByEngine = size_t{4} << 20;

}  // namespace

// The fence is the partner of those in Offer::drive_eager() and may_leave().
Take::Take(const Peer& from, proto::OutboxSlot& slot, const gc_message_data& target)
    : gc_transfer(from),
      slot_(slot),
      target_(target),
      bytes_(std::min<size_t>(slot.bytes, target.bytes) - (gc_mutant(211) ? 1 : 0)),
      began_(std::chrono::steady_clock::now()) {
  set_state(slot_, State::taken);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

Take::~Take() {
  if (event_) end_->put_event(event_);
  if (!pieces_.empty()) end_->synchronize().ignore();  // it has failed
  for (const Piece& piece : pieces_) {
    end_->put_event(piece.there);
    end_->slots.put(piece.slot);
  }
  if (gathered_) coll::PinnedPool::instance().put(gathered_);
  const uint64_t context = slot_.context;  // the sender takes the slot for another message
  set_state(slot_, way_ == Way::done ? State::done : State::failed);
  if (!unopened_.empty()) coll::tell_slow_message(context, nullptr, Cause::message_unopened_memory, unopened_.c_str());
}

Status Take::look_at_sender() {
  if (!__atomic_load_n(&slot_.is_broken, __ATOMIC_ACQUIRE)) return look_at_peer();
  return Status::error(Code::remote, "process %d could not send a message of %llu bytes: its own error says why",
                       peer.pid, static_cast<unsigned long long>(slot_.bytes));
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
  if (target_.on_device || !slot_.is_eager) {
    gpu::MemoryKind kind = gpu::MemoryKind::host;
    GC_TRY_AS(gpu::Device* const device, DeviceEnd::device_of(target_, bytes_, &kind));
    to_host_ = kind != gpu::MemoryKind::device;
    GC_TRY_AS(end_, DeviceEnd::of(*device));
  }
  const bool through_sender = (slot_.is_eager && !target_.on_device) || comes_eagerly() || !slot_.has_place;
  if (through_sender || gc_mutant(210)) return ask_sender();
  if (slot_.packed_at && !is_past(peer.outbox(), slot_, slot_.packed_at)) return look_at_sender();
  return open_memory();
}

// Opens memory of the sender. Returns null where the sender has to copy the data, or has been asked to, or where it is
// to be tried later.
Result<uint8_t*> Take::open_place(const core::ExportedPlace& place) {
  bool idle = false;
  Result<uint8_t*> opened = end_->open(peer, slot_.device, place, &idle);
  if (opened && idle) return opened;
  if (!idle && !slot_.is_eager && std::chrono::steady_clock::now() - began_ < kOpeningPatience) return nullptr;
  if (!opened) unopened_ = "of process " + std::to_string(peer.pid) + ": " + opened.status().what();
  GC_TRY(ask_sender());
  return nullptr;
}

Status Take::open_memory() {
  core::ExportedPlace place = {slot_.place_slot, slot_.place_serial, slot_.offset, {}};
  std::memcpy(place.handle.bytes, slot_.handle, sizeof slot_.handle);
  GC_TRY_AS(uint8_t* const source, open_place(place));
  return source ? start_copy(source) : Status();
}

// Finds the list of runs of the sender's type, and has it copied here where it is new.
Status Take::find_list(uint8_t* source) {
  const proto::OutboxList& list = slot_.list;
  list_ = end_->lists.find(peer.index, list.serial);
  if (list_) return gather(source);
  core::ExportedPlace place = {list.place_slot, list.place_serial, list.offset, {}};
  std::memcpy(place.handle.bytes, list.handle, sizeof list.handle);
  GC_TRY_AS(uint8_t* const from, open_place(place));
  if (!from) return {};
  auto made = std::make_shared<PeerList>(PeerList{peer.index, list.serial, {list.runs, list.starts}, {}});
  auto memory = coll::TypeCache::instance().block(end_->device, made->size.bytes());
  if (!memory) return ask_sender();
  made->memory = *std::move(memory);
  std::vector<proto::PackItem> items;
  coll::append_copy(&items, made->memory.get(), from, made->size.bytes());
  GC_TRY_AS(launch_, end_->copies().add(items, false));
  list_ = std::move(made);
  source_ = source;
  way_ = Way::bringing_list;
  return {};
}

// The list's memory is in use until then, whether the sender lives or not. A sender that has failed may have given its
// memory to another list meanwhile.
Status Take::look_at_list() {
  GC_TRY_AS(const bool ended, end_->copies().ended(launch_));
  if (!ended) return {};
  if (!gc_mutant(214)) GC_TRY(look_at_sender());
  end_->lists.keep(list_);
  return gather(source_);
}

Status Take::put_in_queue(const std::vector<proto::PackItem>& items) {
  GC_TRY_AS(launch_, end_->copies().add(items, to_host_));
  way_ = Way::by_queue;
  return {};
}

// Puts the copy of packed bytes at a kernel address to the target into the queue.
Status Take::unpack(uint8_t* source) {
  std::vector<proto::PackItem> items;
  GC_TRY_AS(holds_, coll::append_packed_copy(&items, end_->device, target_.map, target_.memory, source, bytes_, true));
  return put_in_queue(items);
}

// Puts the copy of data with gaps, the first of which are at a kernel address, into the queue.
Status Take::gather(uint8_t* source) {
  coll::TypeLayout layout = coll::layout_told(slot_.layout);
  layout.granule_bits = static_cast<uint8_t>(slot_.list.granule_bits);
  const proto::PackRuns* const runs = list_ ? list_->runs() : nullptr;
  const uint32_t* const starts = list_ ? list_->starts() : nullptr;
  std::vector<proto::PackItem> items;
  if (target_.map) {
    GC_TRY_AS(holds_,
              coll::append_packed_copy(&items, end_->device, target_.map, target_.memory, nullptr, bytes_, true));
    items.push_back(coll::pack_item(layout, runs, starts, source, nullptr, bytes_, false));
    coll::join_items(&items[0], &items[1]);
  } else {
    auto* const to = static_cast<uint8_t*>(end_->device.kernel_address(target_.memory));
    items.push_back(coll::pack_item(layout, runs, starts, source, to, bytes_, false));
  }
  return put_in_queue(items);
}

Status Take::start_copy(uint8_t* source) {
  if (slot_.has_layout && !target_.on_device) return ask_sender();
  if (slot_.has_layout) return slot_.list.serial ? find_list(source) : gather(source);
  gpu::Device& device = end_->device;
  const bool by_engine = !target_.on_device || (!target_.map && bytes_ >= kLeastByEngine);
  if (!target_.on_device && slot_.kernels_only) return ask_sender();
  if (!by_engine || slot_.kernels_only) return unpack(source);
  gpu::PointerInfo host;  // what the target is like, where it is the host's
  GC_TRY_AS(gpu::Platform* const platform, gpu::platform());
  if (!target_.on_device) host = platform->classify(target_.memory);
  const bool is_out_of_reach = coll::is_partly_pinned(*platform, host, target_.memory, bytes_);
  if (suits_slots(host, is_out_of_reach)) {
    source_ = source;
    way_ = Way::by_slots;
    return go_through_slots();
  }
  if (is_out_of_reach) return ask_sender();
  GC_TRY_AS(const gpu::Stream stream, end_->stream());
  void* const to = target_.on_device ? device.kernel_address(target_.memory) : target_.memory;
  GC_TRY(device.copy_async(to, source, bytes_, stream));
  GC_TRY_AS(event_, end_->take_event());
  GC_TRY(device.record(event_, stream));
  way_ = Way::by_engine;
  return {};
}

Status Take::look_at_engine() {
  GC_TRY_AS(const bool there, end_->device.reached(event_));
  if (there) way_ = Way::done;
  return {};
}

// Returns whether the data go to pageable memory, and are many. is_out_of_reach: no copy engine takes the target, host
// memory of which only the first part is page-locked.
bool Take::suits_slots(const gpu::PointerInfo& target, bool is_out_of_reach) const {
  if (target_.on_device || bytes_ < HostSlots::kLeastMessage) return false;
  return (target.kind == gpu::MemoryKind::host || is_out_of_reach) && end_->slots.are_there();
}

// Has the copy engine fill what slots are free. One message takes half of them, so that the next one begins before it
// ends.
Status Take::fill_slots() {
  const size_t piece = HostSlots::piece_of(bytes_);
  GC_TRY_AS(const gpu::Stream stream, end_->stream());
  while (begun_ < bytes_ && pieces_.size() < HostSlots::kSlots / 2) {
    GC_TRY_AS(const gpu::Event there, end_->take_event());
    uint8_t* const slot = end_->slots.take();
    if (!slot) {
      end_->put_event(there);
      return {};
    }
    pieces_.push_back({slot, std::min(piece, bytes_ - begun_), there});
    GC_TRY(end_->device.copy_async(slot, source_ + begun_, pieces_.back().bytes, stream));
    GC_TRY(end_->device.record(there, stream));
    begun_ += pieces_.back().bytes;
  }
  return {};
}

// Copies a slot that is full to where its data belong. Only one: others wait for progress as well.
Status Take::empty_slots() {
  if (pieces_.empty()) return {};
  const Piece first = pieces_.front();
  GC_TRY_AS(const bool there, end_->device.reached(first.there));
  if (!there) return {};
  std::memcpy(static_cast<uint8_t*>(target_.memory) + stored_, first.slot, first.bytes - (gc_mutant(215) ? 1 : 0));
  pieces_.pop_front();
  end_->put_event(first.there);
  end_->slots.put(first.slot);
  stored_ += first.bytes;
  return {};
}

Status Take::go_through_slots() {
  GC_TRY(fill_slots());
  GC_TRY(empty_slots());
  if (stored_ < bytes_) return fill_slots();
  way_ = Way::done;
  return {};
}

// Has the data brought into host memory that this process sees.
Status Take::ask_sender() {
  if (target_.on_device && !gathered_) {
    gathered_ = static_cast<uint8_t*>(coll::PinnedPool::instance().get(&end_->device, bytes_));
    if (!gathered_) return Status::error(Code::out_of_memory, "no %zu bytes of host memory for a message", bytes_);
  }
  way_ = slot_.is_eager ? Way::by_eager : Way::by_bounce;
  __atomic_store_n(&slot_.by_host, 1u, __ATOMIC_RELEASE);
  return slot_.is_eager ? take_eager() : Status();
}

Status Take::take_eager() {
  if (!is_eager_there()) return look_at_sender();
  const proto::Outbox& outbox = peer.outbox();
  const uint8_t* const data = outbox.eager[index_of(outbox, slot_)];
  uint8_t* const kernel =
      gathered_ ? static_cast<uint8_t*>(coll::PinnedPool::instance().kernel_address(gathered_)) : nullptr;
  if (kernel) {
    std::memcpy(gathered_, data, bytes_);
    return unpack(kernel);
  }
  GC_TRY(store(data));
  way_ = Way::done;
  return {};
}

Status Take::take_from_bounce() {
  GC_TRY(look_at_sender());
  const uint64_t produced = __atomic_load_n(&slot_.produced, __ATOMIC_ACQUIRE), consumed = slot_.consumed;
  if (produced == consumed) return {};
  uint8_t* const target = gathered_ ? gathered_ : static_cast<uint8_t*>(target_.memory);
  if (consumed < bytes_)
    std::memcpy(target + consumed, peer.outbox().bounce, std::min<size_t>(produced, bytes_) - consumed);
  __atomic_store_n(&slot_.consumed, produced, __ATOMIC_RELEASE);
  if (produced < bytes_) return {};
  GC_TRY(look_at_sender());  // a sender that has failed gives its bounce to another message
  GC_TRY(store(target));
  way_ = Way::done;
  return {};
}

Result<bool> Take::advance() {
  switch (way_) {
    case Way::opening: GC_TRY(open()); break;
    case Way::bringing_list: GC_TRY(look_at_list()); break;
    case Way::by_queue: {
      GC_TRY_AS(const bool ended, end_->copies().ended(launch_));
      if (ended) way_ = Way::done;
      break;
    }
    case Way::by_engine: GC_TRY(look_at_engine()); break;
    case Way::by_slots: GC_TRY(go_through_slots()); break;
    case Way::by_eager: GC_TRY(take_eager()); break;
    case Way::by_bounce: GC_TRY(take_from_bounce()); break;
    case Way::done: break;
  }
  return way_ == Way::done;
}

}  // namespace gpucoll::pt2pt
