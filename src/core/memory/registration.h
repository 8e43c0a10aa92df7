// Which memory other ranks may open, and which of theirs this rank has open.
//
// Exports: this rank's allocations, exported once. Each has a slot, whose serial number tells it from others that had
// the slot before; the serial numbers of what is exported now stand on the page (proto/format/copy.h, `live`). An
// allocation is known by its start and buffer id, so memory that was freed, or allocated anew at the same place, is
// noticed. The one used longest ago makes room when all slots are taken, unless it is pinned.
// Imports: allocations of peers by rank, slot and serial number, opened once, and closed when the owner does not export
// them any more. Closing may wait for the device, so it happens only when the caller says so.
//
// Thread safety: Exports: any thread. Imports: none, the owner locks. Ownership: Imports closes what it opened; the
// device outlives both. REQUIRES: a place is not used any more once its memory was freed by its owner.
#pragma once
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "gpu/device.h"
#include "proto/format/copy.h"

namespace gpucoll::core {

// A place in an exported allocation, as one rank tells it to another.
struct ExportedPlace {
  uint32_t slot, serial;
  uint64_t offset;
  gpu::MemoryHandle handle;
};

class Exports {
 public:
  // live: of kExportSlots numbers, on this rank's page.
  Exports(gpu::Device& device, uint32_t* live) : device_(device), live_(live) {}

  enum class Use { by_kernels, by_copies };
  // Nothing where other processes cannot open the memory around a kernel address for this use, or no slot is free.
  std::optional<ExportedPlace> find(const void* kernel_address, Use use = Use::by_kernels);
  // As find(), and keeps the slot until it is unpinned as often, or the memory is freed.
  std::optional<ExportedPlace> pin(const void* kernel_address, Use use = Use::by_kernels);
  void unpin(const ExportedPlace& place);
  // Forgets what was freed, so that peers let it go.
  void tidy();
  size_t size() const;

 private:
  struct Region {
    const void* base;
    uint64_t buffer_id, used;
    uint32_t serial;
    int pins;
    gpu::MemoryHandle handle;
  };
  using Regions = std::map<uint32_t, Region>;  // by slot
  // All with the lock held.
  Regions::iterator look_up(const void* base, uint64_t buffer_id);
  Regions::iterator add(const void* base, uint64_t buffer_id);
  std::optional<uint32_t> take_slot();
  void drop_freed();
  void drop(Regions::iterator it);

  gpu::Device& device_;
  uint32_t* live_;
  mutable std::mutex mutex_;
  Regions regions_;
  uint32_t next_serial_ = 1;
  uint64_t clock_ = 0;
};

class Imports {
 public:
  explicit Imports(gpu::Device& device) : device_(device) {}
  Imports(const Imports&) = delete;
  Imports& operator=(const Imports&) = delete;
  ~Imports();

  // Returns whether open() of the place would open nothing.
  bool has(int peer, const ExportedPlace& place) const {
    const auto it = open_.find({peer, place.slot});
    return it != open_.end() && it->second.serial == place.serial;
  }
  // Kernel address of the place; what was freed at its place may be still open (gpu/cuda/imports.h). Errors: the
  // device's.
  Result<uint8_t*> open(int peer, const ExportedPlace& place);
  // Sets aside what its owner does not export any more: live(peer) is the peer's table.
  template <class Live>
  void drop_freed(Live&& live) {
    for (auto it = open_.begin(); it != open_.end();) {
      const auto& [peer, slot] = it->first;
      // Relaxed: memory that is gone too early or too late was not to be used anyway.
      const uint32_t serial = __atomic_load_n(&live(peer)[slot], __ATOMIC_RELAXED);
      it = serial == it->second.serial ? std::next(it) : set_aside(it);
    }
  }
  // Closes what has been set aside since; that may wait for the device.
  void close_dropped();
  // Closes it while nothing is in flight and no graph may begin, now or at a later call. `mutex`: the owner's lock of
  // this, which is not held, and is let go while the device is waited for.
  void close_dropped_at_rest(std::mutex& mutex);
  // To be closed by close_memory() of the device.
  std::vector<void*> take_dropped() { return std::exchange(dropped_, {}); }
  bool any_dropped() const { return !dropped_.empty(); }
  size_t size() const { return open_.size(); }

 private:
  struct Mapping {
    uint32_t serial;
    void* base;
  };
  using Mappings = std::map<std::pair<int, uint32_t>, Mapping>;  // by rank and slot
  Mappings::iterator set_aside(Mappings::iterator it);

  gpu::Device& device_;
  Mappings open_;
  std::vector<void*> dropped_;
};

}  // namespace gpucoll::core
