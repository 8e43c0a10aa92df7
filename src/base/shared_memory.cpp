#include "base/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

namespace gpucoll {

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      name_(other.name_),
      fd_(std::move(other.fd_)) {}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  if (this == &other) return *this;
  unmap();
  data_ = std::exchange(other.data_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  name_ = other.name_;
  fd_ = std::move(other.fd_);
  return *this;
}

SharedMemory::~SharedMemory() { unmap(); }

void SharedMemory::unmap() noexcept {
  if (data_) munmap(data_, bytes_);
  data_ = nullptr;
}

Result<SharedMemory> SharedMemory::create(size_t bytes, const char* label) {
  SharedMemory memory;
  memory.fd_ = UniqueFd(memfd_create(label, MFD_CLOEXEC));
  if (!memory.fd_) return Status::system(errno, "cannot create shared memory for %s", label);
  if (ftruncate(memory.fd_.get(), static_cast<off_t>(bytes)))
    return Status::system(errno, "cannot size shared memory for %s to %zu bytes", label, bytes);
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, memory.fd_.get(), 0);
  if (data == MAP_FAILED) return Status::system(errno, "cannot map %zu bytes of shared memory for %s", bytes, label);
  memory.data_ = data;
  memory.bytes_ = bytes;
  struct stat info = {};
  if (fstat(memory.fd_.get(), &info)) return Status::system(errno, "cannot inspect shared memory for %s", label);
  memory.name_ = {getpid(), memory.fd_.get(), bytes, info.st_ino};
  return memory;
}

Result<SharedMemory> SharedMemory::open(const SharedMemoryName& name) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", name.pid, name.fd);
  SharedMemory memory;
  memory.fd_ = UniqueFd(::open(path, O_RDWR | O_CLOEXEC));
  if (!memory.fd_)
    return Status::error(Code::remote,
                         "cannot open the shared memory of process %d (%s: %s); it has ended, or runs as another user "
                         "or in another container: run all ranks of a node as one user in one process-id namespace",
                         name.pid, path, std::strerror(errno));
  struct stat info = {};
  if (fstat(memory.fd_.get(), &info) || info.st_ino != name.inode || static_cast<uint64_t>(info.st_size) != name.bytes)
    return Status::error(Code::remote, "the shared memory of process %d is gone; that process has ended", name.pid);
  void* data = mmap(nullptr, name.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, memory.fd_.get(), 0);
  if (data == MAP_FAILED)
    return Status::system(errno, "cannot map %zu bytes of shared memory of process %d", static_cast<size_t>(name.bytes),
                          name.pid);
  memory.data_ = data;
  memory.bytes_ = name.bytes;
  memory.fd_.reset();
  return memory;
}

}  // namespace gpucoll
