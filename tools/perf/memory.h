// The memory that calls and messages work on: of the device, through gpucoll's C API, which gives it on GPUs and on the
// emulated device alike; or of the host, pageable or page-locked.
//
// Thread safety: none. Ownership: a Memory frees what it holds.
#pragma once
#include <cstddef>
#include <string>
#include <utility>

#include "base/status.h"

namespace gpucoll::perf {

enum class MemoryKind { device, host, pinned };
const char* name(MemoryKind kind);
// Returns false where no kind has this name.
bool find_memory_kind(const std::string& name, MemoryKind* kind);

class Memory {
 public:
  // `gpu`: the one that page-locked memory is mapped for; negative on the emulated device, where such memory is host
  // memory like any other.
  static Result<Memory> create(size_t bytes, MemoryKind kind, int gpu);
  Memory(Memory&& other) noexcept
      : kind_(other.kind_), address_(std::exchange(other.address_, nullptr)), release_(other.release_) {}
  Memory& operator=(Memory&&) = delete;
  ~Memory();
  MemoryKind kind() const { return kind_; }
  char* at(size_t offset) const { return address_ + offset; }
  // Copy from and to host memory.
  Status write(size_t offset, const void* from, size_t bytes) const;
  Status read(size_t offset, void* to, size_t bytes) const;
  Status fill(size_t offset, int byte, size_t bytes) const;

 private:
  static Result<Memory> create_device(size_t bytes);
  static Result<Memory> create_pinned(size_t bytes, int gpu);
  Memory(MemoryKind kind, void* address, int (*release)(void*))
      : kind_(kind), address_(static_cast<char*>(address)), release_(release) {}

  MemoryKind kind_;
  char* address_;
  int (*release_)(void*);
};

// The buffers that all measurements share. REQUIRES: large enough for each call, plus kGuardBytes behind recv.
struct Buffers {
  static constexpr size_t kGuardBytes = 512;
  Memory send, recv;
};

// An answer of the C API, with the sentence that belongs to it.
Status from_api(int result, const char* call);

}  // namespace gpucoll::perf
