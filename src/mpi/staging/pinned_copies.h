// Host memory of a call that runs on the device: it is copied to page-locked memory before, which kernels read and
// write in its place, and back after.
//
// Thread safety: one caller at a time. Ownership: owns the page-locked memory from reserve() to clear(); the user's
// buffers outlive it, types need not.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "abi/abi.h"
#include "base/status.h"
#include "gpu/device.h"

namespace gpucoll::coll {

class PinnedCopies {
 public:
  PinnedCopies() = default;
  PinnedCopies(const PinnedCopies&) = delete;
  PinnedCopies& operator=(const PinnedCopies&) = delete;
  ~PinnedCopies() { clear(); }

  // Kernel address of so many bytes. Errors: unsupported, where no page-locked memory is left.
  Result<uint8_t*> reserve(gpu::Device& device, size_t bytes);
  // `bytes` of data that lie at `memory`, as elements of the map (null: without gaps), and at `place` of what was
  // reserved. Loaded before, or stored after.
  void add(uint8_t* memory, const gc_type_map* map, uint8_t* place, size_t bytes, bool stored);

  // Returns the block that is reserved; an empty one where nothing is.
  const gpu::HostBlock& block() const noexcept { return block_; }

  // Before each run, unless it has been loaded since the last store(); and after.
  void load() const {
    if (!pieces_.empty()) load_all();
  }
  void store() const {
    if (!pieces_.empty()) store_all();
  }
  void clear() noexcept;

 private:
  void load_all() const;
  void store_all() const;
  struct Piece {
    uint8_t* memory;
    size_t offset, bytes;  // where it is reserved
    bool stored;
    size_t element_bytes;
    ptrdiff_t extent;
    std::vector<gc_runs> runs;
  };
  template <class Move>
  void each_run(const Piece& piece, const Move& move) const;

  mutable bool loaded_ = false;
  gpu::HostBlock block_;
  std::vector<Piece> pieces_;
};

}  // namespace gpucoll::coll
