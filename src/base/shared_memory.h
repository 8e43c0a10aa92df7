// Host memory that several processes of a node map: anonymous (memfd), so it needs no name, no room in /dev/shm, and
// is gone with the last process that has it mapped, however that process ends.
//
// Others open it as /proc/PID/fd/FD of the creator, which must still be alive then; within one process all share one
// mapping, so that it has one address there. Thread safety: a value type.
#pragma once
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/status.h"
#include "base/unique_fd.h"

namespace gpucoll {

// How another process finds the memory.
struct SharedMemoryName {
  int32_t pid = 0;
  int32_t fd = -1;
  uint64_t bytes = 0;
  uint64_t inode = 0;  // guards against a file descriptor number that was used again
};

class SharedMemory {
 public:
  SharedMemory() noexcept = default;
  SharedMemory(SharedMemory&& other) noexcept = default;
  SharedMemory& operator=(SharedMemory&& other) noexcept = default;

  // Zeroed; pages are used only as they are touched. Errors: out_of_memory, system.
  static Result<SharedMemory> create(size_t bytes, const char* label);
  // Creates memory that no other process can open, and that needs no descriptor. Errors: out_of_memory.
  static Result<SharedMemory> create_unnamed(size_t bytes);
  // Errors: remote, when the creator is gone or its memory may not be opened; system, where no descriptor is left.
  static Result<SharedMemory> open(const SharedMemoryName& name);

  void* data() const noexcept { return mapping_ ? mapping_->data : nullptr; }
  size_t bytes() const noexcept { return mapping_ ? mapping_->bytes : 0; }
  explicit operator bool() const noexcept { return mapping_ != nullptr; }
  // REQUIRES: create() has made it.
  SharedMemoryName name() const noexcept { return name_; }
  // Gives the descriptor back once all who should have opened the memory; nobody can open it any more.
  void close_name() noexcept { fd_.reset(); }

 private:
  struct Mapping {
    void* data;
    size_t bytes;
    Mapping(void* at, size_t size) : data(at), bytes(size) {}
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;
    ~Mapping();
  };
  // The mappings that this process has created, by inode.
  class Created;
  // fd: none for memory without a name.
  static Result<std::shared_ptr<Mapping>> map(const UniqueFd& fd, size_t bytes);

  std::shared_ptr<Mapping> mapping_;
  SharedMemoryName name_;
  UniqueFd fd_;
};

}  // namespace gpucoll
