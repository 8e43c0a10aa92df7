#include "core/memory/user_buffers.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "base/log.h"
#include "core/progress/quiescence.h"

namespace gpucoll::core {

using proto::kCollectiveLinks;
using proto::kDirectMemory;
using proto::kGrants;
using proto::kLooksForGrants;
using proto::kPairLinks;

namespace {

// Calls with memory of another device do not come as far as here.
Cause cause_of(const gpu::PointerInfo& closed) {
  const bool on_host = closed.kind == gpu::MemoryKind::pinned || closed.kind == gpu::MemoryKind::host;
  return on_host ? Cause::host_buffer : Cause::closed_memory;
}

}  // namespace

UserBuffers::~UserBuffers() {
  if (has_proxy_) Proxy::instance().remove(this);
  for (auto& [peer, view] : views_)
    for (uint32_t i = 0; i < kDirectMemory; ++i) let_go(peer, i, view.memory[i]);
  for (void* base : dropped_) context_.device.close_memory(base);
}

bool UserBuffers::over_p2p(proto::LinkKind kind, int peer, net::Side side) const {
  return context_.links.over_p2p({kind, peer, side});
}

// Every channel's ring has the same neighbours on one node (core/connect/rings.h), and there are no others here.
bool UserBuffers::mark(proto::CollectiveItem& item, uint64_t output_bytes, bool capturing) {
  const int n = context_.peers.size(), rank = context_.peers.rank();
  if (n == 1 || output_bytes < context_.least_bytes) return false;
  if (looks(kCollectiveLinks, (rank + 1) % n)) item.direct |= kLooksForGrants;
  if (uint8_t* const granted = address_for(kCollectiveLinks, (rank + n - 1) % n, item.recv, capturing)) {
    item.direct |= kGrants;
    item.granted = granted;
  }
  return true;
}

bool UserBuffers::mark(proto::SendRecvItem& item, bool capturing) {
  const auto worth = [&](int peer, uint64_t bytes, proto::Protocol protocol) {
    return peer >= 0 && peer != context_.peers.rank() && bytes >= context_.least_bytes &&
           protocol == proto::Protocol::simple;
  };
  const bool sends = worth(item.send_peer, item.send_bytes, item.send_protocol);
  const bool receives = worth(item.recv_peer, item.recv_bytes, item.recv_protocol);
  if (sends && looks(kPairLinks, item.send_peer)) item.direct |= kLooksForGrants;
  if (receives) item.granted = address_for(kPairLinks, item.recv_peer, item.recv, capturing);
  if (item.granted) item.direct |= kGrants;
  return sends || receives;
}

bool UserBuffers::looks(proto::LinkKind kind, int peer) {
  if (!over_p2p(kind, peer, net::Side::send)) return false;
  return context_.peers.in_this_process(peer) || opens(peer);
}

bool UserBuffers::opens(int peer) {
  const bool some = has_open(peer);
  if (!some || has_proxy_) return some;
  // The proxy closes what was opened. Without the lock, which tidy() takes.
  Proxy::instance().add(this);
  has_proxy_ = true;
  return true;
}

// Every rank looks at what the others have published, whatever its own buffers are.
bool UserBuffers::open(const void* buffer, bool capturing, proto::BufferAddresses& addresses) {
  const Peers& peers = context_.peers;
  for (int peer = 0; peer < peers.size(); ++peer)
    if (peer != peers.rank() && !peers.in_this_process(peer)) opens(peer);
  const gpu::PointerInfo info = context_.device.classify_kernel(buffer);
  if (!is_open(info)) return false;
  auto* const own = static_cast<uint8_t*>(const_cast<void*>(buffer));
  bool published = false;
  for (int peer = 0; peer < peers.size(); ++peer) {
    addresses.at[peer] = own;
    if (peer == peers.rank() || peers.in_this_process(peer)) continue;
    if (!capturing && !std::exchange(published, true)) publish_again(info);
    addresses.at[peer] = capturing ? nullptr : mapped_address(peer, info, own);
    if (!addresses.at[peer]) return false;
  }
  has_granted_.store(true, std::memory_order_relaxed);
  if (!std::exchange(told_, true))
    log::write(log::Level::debug, "rank %d has buffers that all others reach", peers.rank());
  return true;
}

bool UserBuffers::is_open(const gpu::PointerInfo& info) {
  if (info.exportable && info.device == context_.device.index()) return true;
  const uint64_t call = context_.launched.load(std::memory_order_relaxed) + 1;
  if (std::exchange(slow_call_, call) != call) context_.causes.tell(cause_of(info), "a large call");
  return false;
}

void UserBuffers::publish_again(const gpu::PointerInfo& info) {
  std::unique_lock lock(mutex_);
  if (published(info)) return;
  const bool has_place = place_to_take(true);
  lock.unlock();
  if (!has_place) return context_.causes.tell(Cause::many_buffers, "a large call");
  const auto seen = std::find_if(seen_.begin(), seen_.end(),
                                 [&](const Seen& s) { return s.base == info.base && s.buffer_id == info.buffer_id; });
  if (seen == seen_.end()) {
    seen_[n_seen_++ % seen_.size()] = {info.base, info.buffer_id};
    return;
  }
  *seen = {};
  const auto place = context_.exports.pin(info.base);
  if (place && !publish(static_cast<const uint8_t*>(info.base), *place, true)) context_.exports.unpin(*place);
}

UserBuffers::Published* UserBuffers::published(const gpu::PointerInfo& info) {
  const auto it = std::find_if(published_.begin(), published_.end(), [&](const Published& p) {
    return p.number != 0 && p.base == info.base && p.buffer_id == info.buffer_id;
  });
  return it == published_.end() ? nullptr : &*it;
}

// One that is free, or that may be made so; null where there is none.
UserBuffers::Published* UserBuffers::place_to_take(bool by_itself) {
  // Where more allocations than there are places come in turn, those that have one keep it; what a program registers
  // need not wait.
  const uint64_t long_ago = by_itself ? 4 * kDirectMemory : 0;
  const uint64_t launched = context_.launched.load(std::memory_order_relaxed);
  const bool idle = context_.done() >= launched;
  Published* oldest = nullptr;
  for (Published& p : published_) {
    if (p.number == 0) return &p;
    const bool may_go =
        idle && p.by_itself && p.uses == 1 && p.launched_before < launched && asks_ - p.asked >= long_ago;
    if (may_go && (!oldest || p.asked < oldest->asked)) oldest = &p;
  }
  return oldest;
}

UserBuffers::Published* UserBuffers::free_place(bool by_itself) {
  Published* const place = place_to_take(by_itself);
  if (!place || place->number == 0) return place;
  log::write(log::Level::debug, "rank %d lets its peers forget memory that it has not used for long",
             context_.peers.rank());
  const ExportedPlace exported = {place->slot, place->serial, 0, {}};
  take_back(static_cast<uint32_t>(place - published_.data()));
  context_.exports.unpin(exported);
  return place;
}

bool UserBuffers::has_open(int peer) {
  const log::Later lines;
  std::lock_guard lock(mutex_);
  const View& view = look_at(peer);
  return std::any_of(view.memory.begin(), view.memory.end(), [](const Opened& opened) { return opened.number != 0; });
}

uint8_t* UserBuffers::address_for(proto::LinkKind kind, int peer, void* output, bool capturing) {
  if (!output || !over_p2p(kind, peer, net::Side::receive)) return nullptr;
  const bool own = context_.peers.in_this_process(peer);
  if (!own && capturing) return nullptr;
  const gpu::PointerInfo info = context_.device.classify_kernel(output);
  if (!is_open(info)) return nullptr;
  // Other devices of this process are let into the memory that other processes may open.
  auto* const address = static_cast<uint8_t*>(output);
  if (!own) publish_again(info);
  uint8_t* const granted = own ? address : mapped_address(peer, info, address);
  if (!granted) return nullptr;
  has_granted_.store(true, std::memory_order_relaxed);
  if (!own && !std::exchange(told_grant_, true))
    log::write(log::Level::debug, "rank %d lets others store straight into its buffers", context_.peers.rank());
  return granted;
}

uint8_t* UserBuffers::mapped_address(int peer, const gpu::PointerInfo& info, const uint8_t* output) {
  std::lock_guard lock(mutex_);
  ++asks_;
  Published* const it = published(info);
  if (!it) return nullptr;
  it->asked = asks_;
  it->launched_before = context_.launched.load(std::memory_order_relaxed);
  const proto::DirectLane& lane = context_.peers.direct_lane(peer, context_.peers.rank());
  const proto::MappedMemory& mapped = lane.mappings[it - published_.data()];
  // Acquire: partner is the peer's open().
  if (__atomic_load_n(&mapped.number, __ATOMIC_ACQUIRE) != it->number) return nullptr;
  return reinterpret_cast<uint8_t*>(mapped.address) + (output - it->base);
}

bool UserBuffers::publish(const uint8_t* kernel_address, const ExportedPlace& place) {
  return publish(kernel_address, place, false);
}

bool UserBuffers::publish(const uint8_t* kernel_address, const ExportedPlace& place, bool by_itself) {
  std::lock_guard lock(mutex_);
  const auto it = std::find_if(published_.begin(), published_.end(),
                               [&](const Published& p) { return p.number != 0 && p.serial == place.serial; });
  if (it != published_.end()) {
    ++it->uses;
    it->by_itself |= by_itself;
    return true;
  }
  Published* const taken = free_place(by_itself);
  if (!taken) return false;
  const uint8_t* const base = kernel_address - place.offset;
  const uint64_t launched = context_.launched.load(std::memory_order_relaxed);
  *taken = {base,           context_.device.classify_kernel(base).buffer_id,
            ++last_number_, place.slot,
            place.serial,   1,
            by_itself,      asks_,
            launched};
  proto::DirectPage& page = context_.peers.direct_page(context_.peers.rank());
  proto::PublishedMemory& memory = page.memory[taken - published_.data()];
  static_assert(sizeof memory.handle == sizeof place.handle);
  std::memcpy(memory.handle, &place.handle, sizeof memory.handle);
  // Partners: published_by() and look_at() of the peers.
  __atomic_store_n(&memory.number, taken->number, __ATOMIC_RELEASE);
  __atomic_fetch_add(&page.version, uint64_t{1}, __ATOMIC_RELEASE);
  return true;
}

void UserBuffers::withdraw(const ExportedPlace& place) {
  std::lock_guard lock(mutex_);
  for (uint32_t i = 0; i < kDirectMemory; ++i) {
    Published& p = published_[i];
    if (p.number != 0 && p.serial == place.serial && --p.uses == 0) take_back(i);
  }
}

void UserBuffers::take_back(uint32_t place) {
  published_[place] = {};
  proto::DirectPage& page = context_.peers.direct_page(context_.peers.rank());
  __atomic_store_n(&page.memory[place].number, uint64_t{0}, __ATOMIC_SEQ_CST);  // before any later handle
  __atomic_fetch_add(&page.version, uint64_t{1}, __ATOMIC_SEQ_CST);
}

uint64_t UserBuffers::published_by(int peer, uint32_t place) const {
  return __atomic_load_n(&context_.peers.direct_page(peer).memory[place].number, __ATOMIC_ACQUIRE);
}

UserBuffers::View& UserBuffers::look_at(int peer) {
  View& view = views_[peer];
  const uint64_t version = __atomic_load_n(&context_.peers.direct_page(peer).version, __ATOMIC_ACQUIRE);
  if (version == view.version) return view;
  let_go_withdrawn(peer, view);
  const auto open_all = [&] {
    // Memory that was freed may be in the way of memory that was allocated at its place.
    for (void* base : std::exchange(dropped_, {})) context_.device.close_memory(base);
    for (uint32_t i = 0; i < kDirectMemory; ++i)
      if (view.memory[i].number == 0) open(peer, i, view.memory[i]);
    view.version = version;
  };
  Quiescence::instance().run_if_idle(open_all);  // else at another time
  return view;
}

// Leaves alone what it cannot open: that is not granted then.
void UserBuffers::open(int peer, uint32_t place, Opened& opened) {
  const uint64_t number = published_by(peer, place);
  if (number == 0) return;
  // Acquire: the number is looked at again after them.
  const uint64_t(&words)[14] = context_.peers.direct_page(peer).memory[place].handle;
  uint64_t copied[14];
  for (size_t i = 0; i < std::size(words); ++i) copied[i] = __atomic_load_n(&words[i], __ATOMIC_ACQUIRE);
  if (published_by(peer, place) != number) return;  // the version is another by then
  gpu::MemoryHandle handle;
  static_assert(sizeof handle == sizeof copied);
  std::memcpy(&handle, copied, sizeof handle);
  auto base = context_.device.open_memory(handle);
  if (!base) {
    context_.causes.tell(Cause::unopened_memory, "a large call",
                         ("of rank " + std::to_string(peer) + ": " + base.status().what()).c_str());
    return;
  }
  opened = {number, static_cast<uint8_t*>(*base)};
  proto::MappedMemory& mapped = context_.peers.direct_lane(context_.peers.rank(), peer).mappings[place];
  __atomic_store_n(&mapped.address, reinterpret_cast<uint64_t>(*base), __ATOMIC_RELAXED);
  __atomic_store_n(&mapped.number, number, __ATOMIC_RELEASE);  // partner: the peer's mapped_address()
}

void UserBuffers::let_go(int peer, uint32_t place, Opened& opened) {
  if (opened.number == 0) return;
  proto::MappedMemory& mapped = context_.peers.direct_lane(context_.peers.rank(), peer).mappings[place];
  __atomic_store_n(&mapped.number, uint64_t{0}, __ATOMIC_RELEASE);
  dropped_.push_back(opened.base);
  opened = {};
}

void UserBuffers::let_go_withdrawn(int peer, View& view) {
  for (uint32_t i = 0; i < kDirectMemory; ++i)
    if (view.memory[i].number != published_by(peer, i)) let_go(peer, i, view.memory[i]);
  if (!dropped_.empty()) Proxy::instance().wake();
}

void UserBuffers::look_for_freed() noexcept {
  const std::unique_lock lock(mutex_, std::try_to_lock);  // the watchdog must not wait for a device
  if (!lock.owns_lock()) return;
  for (uint32_t i = 0; i < kDirectMemory; ++i) {
    const Published& p = published_[i];
    if (p.number == 0) continue;
    const gpu::PointerInfo now = context_.device.classify_kernel(p.base);
    if (now.base != p.base || now.buffer_id != p.buffer_id) take_back(i);
  }
  for (auto& [peer, view] : views_) let_go_withdrawn(peer, view);
}

void UserBuffers::tidy() noexcept {
  std::unique_lock lock(mutex_);
  if (dropped_.empty()) return;
  lock.unlock();
  Quiescence::instance().run_at_rest([&] {  // else at the watchdog's next look
    lock.lock();
    const std::vector<void*> dropped = std::exchange(dropped_, {});
    lock.unlock();
    for (void* base : dropped) context_.device.close_memory(base);
  });
}

}  // namespace gpucoll::core
