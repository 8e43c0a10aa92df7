// The memory of the emulated devices in this process: what was allocated, exported and opened, and what an address
// means.
//
// Three kinds of regions, all known by their kernel address: user memory (a range of the Area), runtime memory (a
// memory file each, so that a peer that still writes into memory already released harms nobody) and opened memory
// (a mapping of another process's file).
// Thread safety: every function may be called from any thread. Ownership: the caller releases what it allocated and
// closes what it opened; memory that is both released and open lives until it is closed.
// Invariant: regions do not overlap.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#include "gpu/device.h"
#include "gpu/emu/area.h"
#include "gpu/emu/memory_file.h"
#include "gpu/emu/ranges.h"

namespace gpucoll::gpu::emu {

class Memory {
 public:
  Result<void*> allocate(size_t bytes);
  void release(void* kernel_address) noexcept;
  // Memory that belongs to a device. Zero bytes: a null pointer, as cudaMalloc gives.
  Result<void*> user_allocate(size_t bytes, int device);
  Status user_release(void* user_address);

  Result<MemoryHandle> export_memory(void* kernel_address);
  Result<void*> open_memory(const MemoryHandle& handle);
  void close_memory(void* kernel_address) noexcept;

  // Lock-free: a compare for host memory.
  bool is_user(const void* address) const noexcept;
  void* kernel_address(const void* user_address) const noexcept;
  PointerInfo classify(const void* user_address);
  // By the kernel address; base is one, too. Knows runtime memory as well.
  PointerInfo classify_kernel(const void* kernel_address);
  // Where a copy of `bytes` bytes really goes. Errors: invalid_argument where it leaves the allocation.
  Result<void*> resolve(const void* address, size_t bytes);

 private:
  PointerInfo classify_runtime(const void* kernel_address);
  enum class Kind { user, runtime, opened };
  struct Region {
    Kind kind = Kind::runtime;
    size_t bytes = 0;     // as asked for
    uint64_t offset = 0;  // into the file
    uint64_t buffer_id = 0;
    int device = 0;
    int owners = 1;         // the allocation itself, and each open_memory()
    bool allocated = true;  // false once released while still open
    uint64_t file_id = 0;
    MemoryFile file;  // of runtime memory; others do not own one
  };
  using Regions = std::map<uintptr_t, Region>;

  Status reserve();                           // REQUIRES: lock held
  Regions::iterator find(uintptr_t address);  // the region around an address; REQUIRES: lock held
  Result<void*> add_user_range(size_t bytes, int device);
  Result<void*> open_own(const struct EmuHandle& handle);
  Result<void*> open_peer(const struct EmuHandle& handle);
  Regions::node_type drop(Regions::iterator it);   // one owner less; REQUIRES: lock held
  void destroy(Regions::node_type node) noexcept;  // REQUIRES: lock not held
  Status outside(const void* address, size_t bytes, const Region* region, uintptr_t start) const;

  std::mutex mutex_;
  Area area_;
  Ranges ranges_;  // pages of area_
  Regions regions_;
  uint64_t next_buffer_id_ = 1;
  const uint64_t process_id_ = random_id();  // tells this process from one that had its number before
  // Copies of the Area's bounds for lock-free readers: lo before hi, so that hi != 0 means both are there.
  std::atomic<uintptr_t> user_lo_{0}, user_hi_{0};
};

}  // namespace gpucoll::gpu::emu
