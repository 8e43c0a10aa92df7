#include "coll/shared_gpu/member_pages.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "kernels/kernels.h"

namespace gpucoll::coll {

using proto::MemberItem;
using proto::MemberKind;
using proto::MemberPage;
using proto::MemberPlace;

static_assert(sizeof(MemberPlace::handle) == sizeof(gpu::MemoryHandle));

MemberPages::MemberPages(gpu::Device& device, SharedMemory memory, size_t n_items, int n_ranks)
    : device_(device),
      memory_(std::move(memory)),
      n_items_(n_items),
      others_(static_cast<size_t>(n_ranks)),
      exports_(device, own().live),
      imports_(device) {}

// Messages with each rank, both ways, and a few blocks for each that are packed; memory is used as it is touched.
Result<std::unique_ptr<MemberPages>> MemberPages::create(gpu::Device& device, int n_ranks) {
  constexpr size_t kItemsOfRank = 8, kMore = 64;
  const size_t n_items = kItemsOfRank * static_cast<size_t>(n_ranks) + kMore;
  GC_TRY_AS(SharedMemory memory, SharedMemory::create(bytes_for(n_items), "gpucoll-device-group"));
  std::unique_ptr<MemberPages> self(new MemberPages(device, std::move(memory), n_items, n_ranks));
  core::Watchdog::instance().add(self.get());
  core::Proxy::instance().add(self.get());
  return self;
}

MemberPages::~MemberPages() {
  core::Watchdog::instance().remove(this);
  core::Proxy::instance().remove(this);
}

// ---- what is freed ----

// Sets aside memory that its owner does not export any more.
void MemberPages::drop_freed() {
  imports_.drop_freed([&](int peer) { return page_of(peer).live; });
}

void MemberPages::check() noexcept {
  try {
    exports_.tidy();
    const std::unique_lock lock(mutex_, std::try_to_lock);  // the watchdog must not wait for a device
    if (!lock.owns_lock()) return;
    drop_freed();
    if (imports_.any_dropped()) core::Proxy::instance().wake();
  } catch (...) {
    // No memory to look: the next round tries again.
  }
}

Status MemberPages::open(int rank, const SharedMemoryName& name) {
  GC_TRY_AS(others_[static_cast<size_t>(rank)], SharedMemory::open(name));
  return {};
}

// ---- what this rank asks for ----

MemberItem* MemberPages::add_item(MemberKind kind) {
  if (n_told_ == n_items_) return nullptr;
  MemberItem* const item = on_page_ ? &items_of(memory_)[n_told_] : &not_on_page_;
  ++n_told_;
  item->kind = kind;
  return item;
}

bool MemberPages::tell(const void* kernel_address, MemberPlace* place) {
  place->slot = proto::kNoSlot;
  if (!kernel_address) return true;
  const void* const memory = address_map_.of(kernel_address);
  if (memory != kernel_address && !on_page_) return true;
  const auto found = exports_.find(memory);
  if (!found) return false;
  place->slot = found->slot;
  place->serial = found->serial;
  place->offset = found->offset;
  std::memcpy(place->handle, found->handle.bytes, sizeof place->handle);
  return true;
}

bool MemberPages::tell(MemberKind kind, const core::TaskQueue::Pair& message) {
  MemberItem* const item = add_item(kind);
  if (!item) return false;
  item->peer = message.peer;
  item->bytes = message.bytes;
  item->exchange = message.exchange;
  return tell(message.buffer, &item->first);
}

bool MemberPages::tell(MemberKind kind, const proto::PackItem& pack) {
  MemberItem* const item = add_item(kind);
  if (!item) return false;
  item->pack = pack;
  if (!tell(pack.memory, &item->first) || !tell(pack.packed, &item->second)) return false;
  return !pack.runs || (tell(pack.runs, &item->lists[0]) && tell(pack.starts, &item->lists[1]));
}

bool MemberPages::tell(const core::LocalTask& task) {
  MemberItem* const item = add_item(MemberKind::late_reduction);
  if (!item) return false;
  item->kernel = static_cast<uint32_t>(task.kernel - all_kernels().data());
  item->element_bytes = task.element_bytes;
  item->reduction = task.reduction;
  return tell(task.reduction.own, &item->first) && tell(task.reduction.result, &item->second) &&
         tell(task.reduction.others, &item->lists[0]);
}

bool MemberPages::tell_all(const core::TaskQueue& part) {
  n_told_ = 0;
  const auto all = [](const auto& list, const auto& told) { return std::all_of(list.begin(), list.end(), told); };
  return all(part.collectives,
             [&](const core::CollectiveTask& task) {
               MemberItem* const item = add_item(MemberKind::collective);
               return item && tell(task.send, &item->first) && tell(task.recv, &item->second);
             }) &&
         all(part.sends, [&](const auto& send) { return tell(MemberKind::send, send); }) &&
         all(part.recvs, [&](const auto& recv) { return tell(MemberKind::receive, recv); }) &&
         all(part.before, [&](const auto& pack) { return tell(MemberKind::before, pack); }) &&
         all(part.after, [&](const auto& pack) { return tell(MemberKind::after, pack); }) &&
         all(part.late_reductions, [&](const auto& task) { return tell(task); });
}

bool MemberPages::describe(const core::TaskQueue& part, const AddressMap& map) {
  address_map_ = map;
  on_page_ = true;
  const bool told = tell_all(part);
  own().n_items = static_cast<uint32_t>(n_told_);
  return told;
}

bool MemberPages::can_describe(const core::TaskQueue& part, const AddressMap& map) {
  address_map_ = map;
  on_page_ = false;
  return tell_all(part);
}

void MemberPages::submit(uint64_t call) noexcept {
  __atomic_store_n(&own().handed, call, __ATOMIC_RELEASE);  // partner: handed() of the leader
}

// ---- what others ask for ----

bool MemberPages::handed(int member, uint64_t call) const noexcept {
  return __atomic_load_n(&page_of(member).handed, __ATOMIC_ACQUIRE) >= call;
}

Result<uint8_t*> MemberPages::open_place(int member, const core::ExportedPlace& place) {
  std::lock_guard lock(mutex_);
  return imports_.open(member, place);
}

Result<uint8_t*> MemberPages::find(int member, const MemberPlace& place) {
  if (place.slot == proto::kNoSlot) return nullptr;
  core::ExportedPlace exported = {place.slot, place.serial, place.offset, {}};
  std::memcpy(exported.handle.bytes, place.handle, sizeof place.handle);
  return open_place(member, exported);
}

Result<proto::PackItem> MemberPages::pack_of(int member, const MemberItem& item) {
  proto::PackItem pack = item.pack;
  GC_TRY_AS(pack.memory, find(member, item.first));
  GC_TRY_AS(pack.packed, find(member, item.second));
  if (!pack.runs) return pack;
  GC_TRY_AS(const uint8_t* runs, find(member, item.lists[0]));
  GC_TRY_AS(const uint8_t* starts, find(member, item.lists[1]));
  pack.runs = reinterpret_cast<const proto::PackRuns*>(runs);
  pack.starts = reinterpret_cast<const uint32_t*>(starts);
  return pack;
}

Result<core::LocalTask> MemberPages::reduction_of(int member, const MemberItem& item) {
  if (item.kernel >= all_kernels().size())
    return Status::error(Code::internal, "rank %d asks its leader for another kernel", member);
  core::LocalTask task = {&all_kernels()[item.kernel], item.reduction, item.element_bytes};
  GC_TRY_AS(task.reduction.own, find(member, item.first));
  GC_TRY_AS(task.reduction.result, find(member, item.second));
  GC_TRY_AS(task.reduction.others, find(member, item.lists[0]));
  return task;
}

Status MemberPages::add(int member, const MemberItem& item, const core::TaskQueue& like, core::TaskQueue* part) {
  if (item.kind == MemberKind::before || item.kind == MemberKind::after) {
    GC_TRY_AS(const proto::PackItem pack, pack_of(member, item));
    (item.kind == MemberKind::before ? part->before : part->after).push_back(pack);
    return {};
  }
  if (item.kind == MemberKind::late_reduction) {
    GC_TRY_AS(const core::LocalTask task, reduction_of(member, item));
    part->late_reductions.push_back(task);
    return {};
  }
  GC_TRY_AS(uint8_t * first, find(member, item.first));
  if (item.kind != MemberKind::collective) {
    auto& messages = item.kind == MemberKind::send ? part->sends : part->recvs;
    messages.push_back({item.peer, first, item.bytes, item.exchange != 0});
    return {};
  }
  const size_t index = part->collectives.size();
  if (index >= like.collectives.size())
    return Status::error(Code::internal, "rank %d asks its leader for another collective", member);
  core::CollectiveTask task = like.collectives[index];
  task.send = first;
  GC_TRY_AS(uint8_t * second, find(member, item.second));
  task.recv = second;
  part->collectives.push_back(task);
  return {};
}

Status MemberPages::read(int member, const core::TaskQueue& like, core::TaskQueue* part) {
  part->clear();
  {
    std::lock_guard lock(mutex_);
    drop_freed();
  }
  const MemberItem* const items = items_of(others_[static_cast<size_t>(member)]);
  const size_t n = std::min<size_t>(page_of(member).n_items, n_items_);
  for (size_t i = 0; i < n; ++i) GC_TRY(add(member, items[i], like, part));
  if (part->collectives.size() == like.collectives.size()) return {};
  return Status::error(Code::internal, "rank %d asks its leader for fewer collectives", member);
}

// ---- answers ----

void MemberPages::answer(uint64_t call, proto::LeaderAnswer answer, const char* why) noexcept {
  own().answer = answer;
  std::snprintf(own().why, sizeof own().why, "%s", why);
  __atomic_store_n(&own().answered, call, __ATOMIC_RELEASE);  // partner: answered() of the members
}

bool MemberPages::answered(int leader, uint64_t call) const noexcept {
  return __atomic_load_n(&page_of(leader).answered, __ATOMIC_ACQUIRE) >= call;
}

}  // namespace gpucoll::coll
