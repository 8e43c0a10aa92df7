#include "mpi/staging/pinned_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <iterator>

#include "base/params.h"

namespace gpucoll::coll {
namespace {

constexpr size_t kLeastBlock = 65536;
constexpr size_t kMostSpares = 1024;
constexpr size_t kSpareFactor = 8;  // as much memory as page-locked memory is kept, times this
constexpr size_t kHuge = size_t{2} << 20;

// Returns whether more than the first block of a mapping has become memory.
bool is_touched(void* memory, size_t bytes) noexcept {
  unsigned char resident = 0;
  if (bytes <= kLeastBlock) return false;
  return mincore(static_cast<uint8_t*>(memory) + kLeastBlock, 1, &resident) != 0 || (resident & 1) != 0;
}

// Returns address space that begins with a huge page where it has room for one; null where there is none.
uint8_t* map_aligned(size_t bytes) noexcept {
  const size_t room = bytes < kHuge ? bytes : bytes + kHuge;
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* const found = mmap(nullptr, room, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (found == MAP_FAILED) return nullptr;
  auto* const memory = static_cast<uint8_t*>(found);
  if (room == bytes) return memory;
  const size_t before = -reinterpret_cast<uintptr_t>(memory) % kHuge;
  if (before) munmap(memory, before);
  munmap(memory + before + bytes, kHuge - before);
  return memory + before;
}

size_t rounded(size_t bytes) noexcept { return std::bit_ceil(std::max(bytes, kLeastBlock)); }

}  // namespace

PinnedPool& PinnedPool::instance() {
  static PinnedPool* pool = new PinnedPool(false);
  return *pool;
}

PinnedPool& PinnedPool::of_calls() {
  static PinnedPool* pool = new PinnedPool(true);
  return *pool;
}

size_t PinnedPool::limit() const noexcept {
  return static_cast<size_t>(of_calls_ ? params().pinned_bytes : params().staging_bytes);
}

// Huge pages are a wish. Where the beginning alone may be used, its first touch must not clear a huge page.
void* PinnedPool::map(size_t bytes, Use use) {
  uint8_t* const memory = map_aligned(bytes);
  if (!memory) return nullptr;
  if (use == Use::beginning) madvise(memory, std::min(bytes, kHuge), MADV_NOHUGEPAGE);
  const size_t small = use == Use::beginning ? std::min(bytes, kHuge) : 0;
  if (bytes - small >= kHuge) madvise(memory + small, bytes - small, MADV_HUGEPAGE);
  std::lock_guard lock(mutex_);
  mapped_.emplace(memory, bytes);
  return memory;
}

// Unmaps a stage or keeps it, and returns whether it came from map(). REQUIRES: mutex_ is held.
bool PinnedPool::unmap(void* stage) noexcept {
  const auto it = mapped_.find(stage);
  if (it == mapped_.end()) return false;
  const size_t touched = is_touched(stage, it->second) ? it->second : 0, most = kSpareFactor * limit();
  while (touched <= most && !spare_.empty() && spare_bytes_ + touched > most) drop_spare(std::prev(spare_.end()));
  if (touched <= most && spare_.size() < kMostSpares) {
    spare_.emplace(it->second, Spare{stage, touched});
    spare_bytes_ += touched;
    return true;
  }
  munmap(stage, it->second);
  mapped_.erase(it);
  return true;
}

// Gives the memory of a spare back to the system. REQUIRES: mutex_ is held.
void PinnedPool::drop_spare(std::multimap<size_t, Spare>::iterator spare) noexcept {
  munmap(spare->second.memory, spare->first);
  mapped_.erase(spare->second.memory);
  spare_bytes_ -= spare->second.touched;
  spare_.erase(spare);
}

// The smallest free block that is large enough, but none that is much too large: that would be missing for others.
gpu::HostBlock PinnedPool::reuse(size_t bytes) {
  const size_t most = 4 * std::bit_ceil(std::max(bytes, kLeastBlock));
  Block* best = nullptr;
  for (Block& b : blocks_)
    if (!b.busy && b.memory.bytes >= bytes && b.memory.bytes <= most && (!best || b.memory.bytes < best->memory.bytes))
      best = &b;
  if (!best) return {};
  best->busy = true;
  return best->memory;
}

gpu::HostBlock PinnedPool::pin(gpu::Device& device, size_t bytes, Room room) {
  const size_t size = rounded(bytes);
  if (size > limit()) return {};
  // Make room: free blocks do not suit this request, or reuse() would have taken one.
  for (size_t i = 0; room == Room::made && i < blocks_.size() && kept_bytes_ + size > limit();) {
    if (blocks_[i].busy) {
      ++i;
      continue;
    }
    kept_bytes_ -= blocks_[i].memory.bytes;
    blocks_[i].device->release_host(blocks_[i].memory);
    blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  if (kept_bytes_ + size > limit()) return {};
  auto block = device.allocate_host(size);
  if (!block) return {};
  block->bytes = size;
  blocks_.push_back({*block, &device, true});
  kept_bytes_ += size;
  return *block;
}

gpu::HostBlock PinnedPool::get_pinned(gpu::Device& device, size_t bytes) noexcept {
  return get_pinned(device, bytes, Room::made);
}

gpu::HostBlock PinnedPool::get_pinned(gpu::Device& device, size_t bytes, Room room) noexcept {
  try {
    std::lock_guard lock(mutex_);
    const gpu::HostBlock block = reuse(bytes);
    return block.host ? block : pin(device, bytes, room);
  } catch (...) {
    return {};  // no memory for the book-keeping
  }
}

// Without page-locked memory, pageable memory may still be had. The C library keeps less than a huge page for itself.
void* PinnedPool::get(gpu::Device* device, size_t bytes) noexcept {
  if (device) {
    if (void* stage = get_pinned(*device, bytes).host) return stage;
  }
  if (bytes < kHuge) {
    if (void* stage = std::malloc(std::max<size_t>(bytes, 1))) return stage;
  }
  if (void* stage = get_mapped(bytes, Use::whole)) return stage;
  return std::malloc(bytes);
}

void* PinnedPool::take_spare(size_t bytes) noexcept {
  std::lock_guard lock(mutex_);
  const auto found = spare_.find(bytes);
  if (found == spare_.end()) return nullptr;
  const Spare spare = found->second;
  spare_.erase(found);
  spare_bytes_ -= spare.touched;
  return spare.memory;
}

void* PinnedPool::get_mapped(size_t bytes, Use use) noexcept {
  try {
    if (void* stage = take_spare(rounded(bytes))) return stage;
    return map(rounded(bytes), use);
  } catch (...) {
    return nullptr;  // no memory for the book-keeping
  }
}

void* PinnedPool::reserve(gpu::Device* device, size_t bytes) noexcept {
  if (device) {
    if (void* stage = get_pinned(*device, bytes, Room::free).host) return stage;
  }
  return get_mapped(bytes, Use::beginning);
}

// Returns the block in use that the address lies in. REQUIRES: mutex_ is held.
const PinnedPool::Block* PinnedPool::find(const void* address) const noexcept {
  const auto found = std::find_if(blocks_.begin(), blocks_.end(), [&](const Block& b) {
    const auto at = reinterpret_cast<uintptr_t>(address), start = reinterpret_cast<uintptr_t>(b.memory.host);
    return b.busy && at >= start && at < start + b.memory.bytes;
  });
  return found == blocks_.end() ? nullptr : &*found;
}

bool PinnedPool::is_pinned(const void* address) noexcept {
  std::lock_guard lock(mutex_);
  return find(address) != nullptr;
}

void* PinnedPool::kernel_address(const void* address) noexcept {
  std::lock_guard lock(mutex_);
  const Block* block = find(address);
  if (!block) return nullptr;
  return static_cast<uint8_t*>(block->memory.kernel) +
         (static_cast<const uint8_t*>(address) - static_cast<const uint8_t*>(block->memory.host));
}

void PinnedPool::put(void* stage) noexcept {
  if (!stage) return;
  std::lock_guard lock(mutex_);
  for (Block& b : blocks_) {
    if (b.memory.host != stage) continue;
    b.busy = false;
    return;
  }
  if (!unmap(stage)) std::free(stage);
}

void PinnedPool::clear() noexcept {
  std::lock_guard lock(mutex_);
  std::erase_if(blocks_, [&](const Block& b) {
    if (b.busy) return false;
    kept_bytes_ -= b.memory.bytes;
    b.device->release_host(b.memory);
    return true;
  });
  while (!spare_.empty()) drop_spare(spare_.begin());
}

}  // namespace gpucoll::coll
