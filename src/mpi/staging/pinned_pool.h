// Page-locked host memory for staging device buffers, kept for the next call, and in another pool for the host memory
// of calls that run on the device.
//
// At most params().staging_bytes are kept, and of the other pool params().pinned_bytes. Larger requests for staging get
// pageable memory, in huge pages where the system has them. Eight times params().staging_bytes of it are kept for the
// next requests, since the system clears what is new to a process page by page. Where there is less memory than that,
// it is address space, of which what is touched becomes memory: data may lie far apart. Thread safety: any thread.
#pragma once
#include <cstddef>
#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "gpu/device.h"

namespace gpucoll::coll {

class PinnedPool {
 public:
  static PinnedPool& instance();
  // A call whose host memory finds no room here goes through the host on all ranks: so it holds more.
  static PinnedPool& of_calls();
  // `device` may be null: then, and where page-locked memory is not to be had, the memory is pageable.
  // Null only when there is no memory at all.
  void* get(gpu::Device* device, size_t bytes) noexcept;
  // Returns memory of which the caller may well use the first bytes only, as where a receive may bring an envelope:
  // page-locked memory where that is free or has room, else address space.
  void* reserve(gpu::Device* device, size_t bytes) noexcept;
  // Page-locked memory that kernels of `device` see; its host is null where there is none.
  gpu::HostBlock get_pinned(gpu::Device& device, size_t bytes) noexcept;
  void put(void* stage) noexcept;  // host address
  // Returns whether the address lies in page-locked memory that the pool has given out.
  bool is_pinned(const void* address) noexcept;
  // Returns by which address kernels see this host address; null where it does not lie in such memory.
  void* kernel_address(const void* address) noexcept;
  // Gives all page-locked memory that is not in use back.
  void clear() noexcept;

 private:
  struct Block {
    gpu::HostBlock memory;
    gpu::Device* device;
    bool busy;
  };
  explicit PinnedPool(bool of_calls) : of_calls_(of_calls) {}
  size_t limit() const noexcept;
  enum class Room { free, made };
  struct Spare {
    void* memory;
    size_t touched;  // bytes, or 0 where hardly any were
  };
  enum class Use { whole, beginning };  // of pageable memory, as far as is known beforehand
  void* map(size_t bytes, Use use);
  void* take_spare(size_t bytes) noexcept;
  void drop_spare(std::multimap<size_t, Spare>::iterator spare) noexcept;
  void* get_mapped(size_t bytes, Use use) noexcept;
  gpu::HostBlock get_pinned(gpu::Device& device, size_t bytes, Room room) noexcept;
  bool unmap(void* stage) noexcept;
  const Block* find(const void* address) const noexcept;
  gpu::HostBlock reuse(size_t bytes);
  gpu::HostBlock pin(gpu::Device& device, size_t bytes, Room room);
  const bool of_calls_;
  std::mutex mutex_;
  std::vector<Block> blocks_;
  std::unordered_map<void*, size_t> mapped_;  // with their sizes
  std::multimap<size_t, Spare> spare_;        // of mapped_, not in use, by size
  size_t spare_bytes_ = 0;                    // of spare_, those that were touched
  size_t kept_bytes_ = 0;
};

}  // namespace gpucoll::coll
