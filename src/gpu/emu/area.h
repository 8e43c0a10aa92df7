// The address space of the emulated device's user memory: two areas of equal size over one memory file.
//
//   user area    what the application holds; PROT_NONE in strict mode, so that any host access faults
//   alias area   what emulated kernels and copies use; alias = user + delta()
//
// Both start out inaccessible; open() makes a range usable, close() takes it back and returns its memory to the
// system. A file descriptor serves all allocations, so that their number is not bound by the limit on open files.
// Thread safety: reserve() once; open() and close() on disjoint ranges may run at once. Ownership: lives until the
// process ends (never unmapped: a late kernel must not crash while the process is exiting).
// fork(): the child shares the memory; it must not allocate or release.
#pragma once
#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "gpu/emu/memory_file.h"

namespace gpucoll::gpu::emu {

class Area {
 public:
  // Reserves `bytes` twice, or less where the system refuses (down to 1 GiB).
  Status reserve(size_t bytes, bool strict);

  bool reserved() const noexcept { return bytes_ != 0; }
  size_t bytes() const noexcept { return bytes_; }
  uintptr_t user() const noexcept { return user_; }
  uintptr_t delta() const noexcept { return bytes_; }  // the alias area follows the user area
  const MemoryFile& file() const noexcept { return file_; }
  bool has_alias(uintptr_t address) const noexcept { return address - user_ - bytes_ < bytes_; }

  // REQUIRES: offset and bytes are multiples of the page size and inside the area.
  Status open(size_t offset, size_t bytes);
  void close(size_t offset, size_t bytes) noexcept;

 private:
  bool reserve_exactly(size_t bytes);
  Status map_file();

  MemoryFile file_;
  uintptr_t user_ = 0;
  size_t bytes_ = 0;
  bool strict_ = true;
};

size_t page_bytes() noexcept;
size_t round_to_pages(size_t bytes) noexcept;

}  // namespace gpucoll::gpu::emu
