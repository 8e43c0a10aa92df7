// A memory file (memfd): memory that another process of this node opens through /proc/PID/fd/FD. It has no name in
// any file system, so nothing is left behind when its processes end, however they end.
//
// The random id in its name, which the opener checks, tells it from a descriptor that was reused meanwhile.
// Thread safety: const members only after create(). Ownership: closes its descriptor; mappings outlive it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/status.h"

namespace gpucoll::gpu::emu {

class MemoryFile {
 public:
  MemoryFile() noexcept = default;
  MemoryFile(MemoryFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)), id_(other.id_) {}
  MemoryFile& operator=(MemoryFile&& other) noexcept;
  ~MemoryFile();

  // A new one of `bytes` zeroes; memory is used as it is touched.
  static Result<MemoryFile> create(size_t bytes);
  // That of another process. Errors: remote where the process has ended, system where it may not be opened.
  static Result<MemoryFile> open(int pid, int fd, uint64_t id);

  int fd() const noexcept { return fd_; }
  uint64_t id() const noexcept { return id_; }

 private:
  MemoryFile(int fd, uint64_t id) noexcept : fd_(fd), id_(id) {}

  int fd_ = -1;
  uint64_t id_ = 0;
};

// Unlike any number drawn before on this node.
uint64_t random_id() noexcept;

}  // namespace gpucoll::gpu::emu
