#include "gpu/emu/memory.h"

#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/fork.h"
#include "base/params.h"

namespace gpucoll::gpu::emu {

// The content of a MemoryHandle of the emulated device. Only processes of the same library version read it (the engine
// compares versions before handles travel).
struct EmuHandle {
  uint64_t magic;
  uint64_t process_id;  // Memory::process_id_ of the owner
  uint64_t file_id;
  uint64_t offset;  // of the memory in the file
  uint64_t bytes;
  uint64_t address;  // kernel address in the owner
  int32_t pid;
  int32_t fd;
};
static_assert(sizeof(EmuHandle) == 56 && sizeof(EmuHandle) <= sizeof(MemoryHandle));

namespace {

constexpr uint64_t kHandleMagic = 0x31756d652d6c6f63;  // "col-emu1"

void* at(uintptr_t address) { return reinterpret_cast<void*>(address); }
uintptr_t number(const void* address) { return reinterpret_cast<uintptr_t>(address); }

// More than the machine has can only end in the system killing somebody later.
Status check_size(size_t bytes) {
  struct sysinfo info {};
  if (sysinfo(&info) != 0) return {};
  const uint64_t most = (static_cast<uint64_t>(info.totalram) + info.totalswap) * info.mem_unit;
  if (bytes <= most) return {};
  return Status::error(Code::out_of_memory,
                       "an allocation of %zu bytes on the emulated device is more than this machine's memory of %llu "
                       "bytes",
                       bytes, static_cast<unsigned long long>(most));
}

Result<void*> map_shared(const MemoryFile& file, size_t bytes, uint64_t offset) {
  void* start = mmap(nullptr, round_to_pages(bytes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file.fd(),
                     static_cast<off_t>(offset));
  if (start != MAP_FAILED) return start;
  return Status::error(Code::out_of_memory, "the emulated device cannot map %zu bytes (%s); look at `ulimit -v`", bytes,
                       std::strerror(errno));
}

}  // namespace

Status Memory::reserve() {
  if (area_.reserved()) return {};
  claim_process();
  GC_TRY(area_.reserve(static_cast<size_t>(params().emu_memory), params().emu_strict != 0));
  ranges_ = Ranges(area_.bytes() / page_bytes());
  user_lo_.store(area_.user(), std::memory_order_relaxed);
  // release: partner of the acquire in is_user(), which then reads user_lo_.
  user_hi_.store(area_.user() + area_.bytes(), std::memory_order_release);
  return {};
}

Memory::Regions::iterator Memory::find(uintptr_t address) {
  auto it = regions_.upper_bound(address);
  if (it == regions_.begin()) return regions_.end();
  --it;
  const size_t room = round_to_pages(it->second.bytes);
  return address - it->first < room ? it : regions_.end();
}

Result<void*> Memory::allocate(size_t bytes) {
  if (bytes == 0) bytes = 1;
  GC_TRY(check_size(bytes));
  GC_TRY_AS(MemoryFile file, MemoryFile::create(round_to_pages(bytes)));
  GC_TRY_AS(void* start, map_shared(file, bytes, 0));
  std::lock_guard lock(mutex_);
  Region& region = regions_[number(start)];
  region.bytes = bytes;
  region.buffer_id = next_buffer_id_++;
  region.file_id = file.id();
  region.file = std::move(file);
  return start;
}

void Memory::release(void* kernel_address) noexcept {
  Regions::node_type node;
  {
    std::lock_guard lock(mutex_);
    auto it = regions_.find(number(kernel_address));
    if (it == regions_.end() || it->second.kind != Kind::runtime || !it->second.allocated) return;
    it->second.allocated = false;
    node = drop(it);
  }
  destroy(std::move(node));
}

Result<void*> Memory::user_allocate(size_t bytes, int device) {
  if (bytes == 0) return static_cast<void*>(nullptr);
  GC_TRY(check_size(bytes));
  std::lock_guard lock(mutex_);
  GC_TRY(reserve());
  return add_user_range(bytes, device);
}

// One page more than needed is taken and never opened: running over the end faults, also in kernels.
Result<void*> Memory::add_user_range(size_t bytes, int device) {
  const size_t room = round_to_pages(bytes), pages = room / page_bytes() + 1;
  const auto page = ranges_.take(pages);
  if (!page)
    return Status::error(Code::out_of_memory,
                         "the emulated device has no room for %zu bytes (of %zu the largest free piece has %llu); "
                         "release memory or raise the parameter emu_memory",
                         bytes, area_.bytes(), static_cast<unsigned long long>(ranges_.largest() * page_bytes()));
  const size_t offset = *page * page_bytes();
  if (Status status = area_.open(offset, room); !status) {
    ranges_.give(*page, pages);
    return status;
  }
  Region& region = regions_[area_.user() + area_.delta() + offset];
  region.kind = Kind::user;
  region.device = device;
  region.bytes = bytes;
  region.offset = offset;
  region.buffer_id = next_buffer_id_++;
  region.file_id = area_.file().id();
  return at(area_.user() + offset);
}

Status Memory::user_release(void* user_address) {
  if (user_address == nullptr) return {};
  Regions::node_type node;
  {
    std::lock_guard lock(mutex_);
    auto it = is_user(user_address) ? regions_.find(number(user_address) + area_.delta()) : regions_.end();
    if (it == regions_.end() || !it->second.allocated)
      return Status::error(Code::invalid_argument,
                           "%p is not the start of memory of the emulated device, or was released before",
                           user_address);
    it->second.allocated = false;
    node = drop(it);
  }
  destroy(std::move(node));
  return {};
}

Memory::Regions::node_type Memory::drop(Regions::iterator it) {
  if (--it->second.owners > 0) return {};
  return regions_.extract(it);
}

// The range is nobody's any more, so the slow part (giving pages back) needs no lock.
void Memory::destroy(Regions::node_type node) noexcept {
  if (node.empty()) return;
  const Region& region = node.mapped();
  const size_t room = round_to_pages(region.bytes);
  if (region.kind != Kind::user) {
    munmap(at(node.key()), room);
    return;
  }
  area_.close(region.offset, room);
  std::lock_guard lock(mutex_);
  ranges_.give(region.offset / page_bytes(), room / page_bytes() + 1);
}

Result<MemoryHandle> Memory::export_memory(void* kernel_address) {
  std::lock_guard lock(mutex_);
  auto it = regions_.find(number(kernel_address));
  if (it == regions_.end() || it->second.kind == Kind::opened)
    return Status::error(Code::invalid_argument, "%p is not memory that this process's emulated device allocated",
                         kernel_address);
  const Region& region = it->second;
  EmuHandle mine{};
  mine.magic = kHandleMagic;
  mine.process_id = process_id_;
  mine.file_id = region.file_id;
  mine.offset = region.offset;
  mine.bytes = region.bytes;
  mine.address = it->first;
  mine.pid = getpid();
  mine.fd = region.kind == Kind::user ? area_.file().fd() : region.file.fd();
  MemoryHandle handle{};
  std::memcpy(handle.bytes, &mine, sizeof mine);
  return handle;
}

Result<void*> Memory::open_memory(const MemoryHandle& handle) {
  EmuHandle peer;
  std::memcpy(&peer, handle.bytes, sizeof peer);
  if (peer.magic != kHandleMagic)
    return Status::error(Code::invalid_argument, "a memory handle of another kind of device cannot be opened here");
  return peer.process_id == process_id_ && peer.pid == getpid() ? open_own(peer) : open_peer(peer);
}

// Returns the same address again: one mapping, so that ThreadSanitizer sees one piece of memory.
Result<void*> Memory::open_own(const EmuHandle& handle) {
  std::lock_guard lock(mutex_);
  auto it = regions_.find(handle.address);
  if (it == regions_.end() || it->second.file_id != handle.file_id || it->second.kind == Kind::opened)
    return Status::error(Code::invalid_argument,
                         "a memory handle of this process was opened after its memory was released");
  ++it->second.owners;
  return at(it->first);
}

Result<void*> Memory::open_peer(const EmuHandle& handle) {
  std::lock_guard lock(mutex_);
  for (auto& [start, region] : regions_) {
    if (region.kind != Kind::opened || region.file_id != handle.file_id || region.offset != handle.offset ||
        region.bytes != handle.bytes)
      continue;
    ++region.owners;
    return at(start);
  }
  GC_TRY_AS(MemoryFile file, MemoryFile::open(handle.pid, handle.fd, handle.file_id));
  GC_TRY_AS(void* start, map_shared(file, handle.bytes, handle.offset));
  Region& region = regions_[number(start)];
  region.kind = Kind::opened;
  region.bytes = handle.bytes;
  region.offset = handle.offset;
  region.file_id = handle.file_id;
  return start;
}

void Memory::close_memory(void* kernel_address) noexcept {
  Regions::node_type node;
  {
    std::lock_guard lock(mutex_);
    auto it = regions_.find(number(kernel_address));
    if (it == regions_.end()) return;
    // One close too many must not take away memory that its owner still uses.
    if (it->second.kind != Kind::opened && it->second.allocated && it->second.owners == 1) return;
    node = drop(it);
  }
  destroy(std::move(node));
}

bool Memory::is_user(const void* address) const noexcept {
  // acquire: partner of the release in reserve().
  const uintptr_t hi = user_hi_.load(std::memory_order_acquire);
  return number(address) < hi && number(address) >= user_lo_.load(std::memory_order_relaxed);
}

void* Memory::kernel_address(const void* user_address) const noexcept {
  const uintptr_t delta = is_user(user_address) ? area_.delta() : 0;
  return at(number(user_address) + delta);
}

PointerInfo Memory::classify(const void* user_address) {
  PointerInfo info;
  if (!is_user(user_address)) return info;
  // Also what is not allocated (any more), though on no device: the host may not touch it.
  info.kind = MemoryKind::device;
  std::lock_guard lock(mutex_);
  auto it = find(number(user_address) + area_.delta());
  if (it == regions_.end() || !it->second.allocated) return info;
  info.device = it->second.device;
  info.buffer_id = it->second.buffer_id;
  info.base = at(it->first - area_.delta());
  info.bytes = it->second.bytes;
  info.exportable = params().emu_exports;
  return info;
}

PointerInfo Memory::classify_runtime(const void* kernel_address) {
  std::lock_guard lock(mutex_);
  const auto it = find(number(kernel_address));
  if (it == regions_.end() || it->second.kind != Kind::runtime || !it->second.allocated) return {};
  return {MemoryKind::device, it->second.device, it->second.buffer_id, at(it->first), it->second.bytes, true};
}

PointerInfo Memory::classify_kernel(const void* kernel_address) {
  if (PointerInfo info = classify_runtime(kernel_address); info.base) return info;
  const void* user = at(number(kernel_address) - area_.delta());
  PointerInfo info = classify(user);
  if (info.base) info.base = this->kernel_address(info.base);
  return info;
}

Result<void*> Memory::resolve(const void* address, size_t bytes) {
  const uintptr_t target = number(kernel_address(address));
  std::lock_guard lock(mutex_);
  auto it = find(target);
  if (it == regions_.end()) {
    if (!area_.reserved() || !area_.has_alias(target)) return at(target);  // host memory
    return outside(address, bytes, nullptr, 0);
  }
  const size_t left = it->second.bytes - std::min<size_t>(target - it->first, it->second.bytes);
  if (bytes > left) return outside(address, bytes, &it->second, it->first);
  return at(target);
}

Status Memory::outside(const void* address, size_t bytes, const Region* region, uintptr_t start) const {
  if (region == nullptr)
    return Status::error(Code::invalid_argument, "%zu bytes at %p are not allocated on the emulated device (any more)",
                         bytes, address);
  return Status::error(Code::invalid_argument,
                       "%zu bytes at %p run past the end of an allocation of %zu bytes on the emulated device, %zu "
                       "bytes after its start; check the size",
                       bytes, address, region->bytes, static_cast<size_t>(number(kernel_address(address)) - start));
}

}  // namespace gpucoll::gpu::emu
