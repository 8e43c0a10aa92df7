#include "base/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>

#include "base/mutant.h"
#include "base/system_limits.h"

namespace gpucoll {

class SharedMemory::Created {
 public:
  static Created& instance() {
    // Never destroyed: other statics may still hold memory.
    static Created* created = new Created;
    return *created;
  }

  void add(uint64_t inode, const std::shared_ptr<Mapping>& mapping) {
    std::lock_guard lock(mutex_);
    std::erase_if(mappings_, [](const auto& entry) { return entry.second.expired(); });
    mappings_[inode] = mapping;
  }

  // Null where this process has not created it, or has let it go.
  std::shared_ptr<Mapping> find(uint64_t inode) {
    std::lock_guard lock(mutex_);
    const auto it = mappings_.find(inode);
    return it == mappings_.end() ? nullptr : it->second.lock();
  }

 private:
  std::mutex mutex_;
  std::map<uint64_t, std::weak_ptr<Mapping>> mappings_;
};

namespace {

Status cannot_open(int errnum, pid_t pid) {
  return Status::error(no_descriptor_left(errnum) ? Code::system : Code::remote,
                       "cannot open the shared memory of process %d (%s)%s", pid, std::strerror(errnum),
                       process_obstacle(errnum, pid).c_str());
}

}  // namespace

SharedMemory::Mapping::~Mapping() { munmap(data, bytes); }

Result<std::shared_ptr<SharedMemory::Mapping>> SharedMemory::map(const UniqueFd& fd, size_t bytes) {
  const int flags = MAP_SHARED | MAP_NORESERVE | (fd ? 0 : MAP_ANONYMOUS);
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, fd.get(), 0);
  if (data == MAP_FAILED) return Status::system(errno, "cannot map %zu bytes of shared memory", bytes);
  return std::make_shared<Mapping>(data, bytes);
}

Result<SharedMemory> SharedMemory::create(size_t bytes, const char* label) {
  SharedMemory memory;
  memory.fd_ = UniqueFd(memfd_create(label, MFD_CLOEXEC));
  if (!memory.fd_) return Status::system(errno, "cannot create shared memory for %s", label);
  // Whoever gets hold of its name in /proc is to be of the same user, too.
  if (fchmod(memory.fd_.get(), 0600)) return Status::system(errno, "cannot keep shared memory for %s private", label);
  errno = EFBIG;
  if ((!fits_file_limit(bytes) && !gc_mutant(120)) || ftruncate(memory.fd_.get(), static_cast<off_t>(bytes)))
    return Status::system(errno, "cannot size shared memory for %s to %zu bytes", label, bytes);
  GC_TRY_AS(memory.mapping_, map(memory.fd_, bytes));
  struct stat info = {};
  if (fstat(memory.fd_.get(), &info)) return Status::system(errno, "cannot inspect shared memory for %s", label);
  memory.name_ = {getpid(), memory.fd_.get(), bytes, info.st_ino};
  Created::instance().add(info.st_ino, memory.mapping_);
  return memory;
}

Result<SharedMemory> SharedMemory::create_unnamed(size_t bytes) {
  SharedMemory memory;
  GC_TRY_AS(memory.mapping_, map({}, bytes));
  return memory;
}

Result<SharedMemory> SharedMemory::open(const SharedMemoryName& name) {
  SharedMemory memory;
  if (name.pid == getpid()) memory.mapping_ = Created::instance().find(name.inode);
  if (memory) return memory;
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", name.pid, name.fd);
  const UniqueFd fd(::open(path, O_RDWR | O_CLOEXEC));
  if (!fd) return cannot_open(errno, name.pid);
  struct stat info = {};
  if (fstat(fd.get(), &info) || info.st_ino != name.inode || static_cast<uint64_t>(info.st_size) != name.bytes)
    return Status::error(Code::remote, "the shared memory of process %d is gone; that process has ended", name.pid);
  GC_TRY_AS(memory.mapping_, map(fd, name.bytes));
  return memory;
}

}  // namespace gpucoll
