#include "gpu/emu/memory_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "base/system_limits.h"

namespace gpucoll::gpu::emu {
namespace {

struct FileName {
  char text[40];
};

FileName file_name(uint64_t id) {
  FileName name;
  std::snprintf(name.text, sizeof name.text, "gpucoll-%016" PRIx64, id);
  return name;
}

Status no_memory(int errnum, size_t bytes) {
  if (no_descriptor_left(errnum))
    return Status::error(Code::out_of_memory,
                         "the emulated device needs a file descriptor for each piece of runtime memory and none is "
                         "left%s, or lower the parameter channels",
                         limit_advice(errnum));
  if (errnum == EFBIG)
    return Status::error(Code::out_of_memory, "the emulated device cannot get a memory file of %zu bytes%s", bytes,
                         limit_advice(errnum));
  return Status::error(Code::out_of_memory,
                       "the emulated device cannot get a memory file of %zu bytes (%s); look at `ulimit -a` and at "
                       "the memory left on this machine",
                       bytes, std::strerror(errnum));
}

Status cannot_open(int errnum, int pid) {
  if ((errnum == ENOENT || errnum == ESRCH) && kill(pid, 0) != 0 && errno == ESRCH)
    return Status::error(Code::remote, "process %d, whose memory this process wanted to open, has ended", pid);
  if (errnum == ENOENT)
    return Status::error(Code::remote, "process %d has released the memory that this process wanted to open", pid);
  return Status::error(Code::system, "memory of process %d cannot be opened (%s)%s", pid, std::strerror(errnum),
                       process_obstacle(errnum, pid).c_str());
}

// Returns whether the descriptor is the memory file `id`, and not one that took over its number.
bool is_file(int fd, uint64_t id) {
  char path[40], link[128];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(path, link, sizeof link - 1);
  if (length <= 0) return false;
  link[length] = 0;
  return std::strstr(link, file_name(id).text) != nullptr;
}

}  // namespace

uint64_t random_id() noexcept {
  uint64_t id = 0;
  if (getrandom(&id, sizeof id, 0) == static_cast<ssize_t>(sizeof id)) return id;
  timespec now{};  // no system call for random numbers (an old kernel in a sandbox): time and process will do
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (static_cast<uint64_t>(getpid()) << 40) ^ (static_cast<uint64_t>(now.tv_sec) << 30) ^
         static_cast<uint64_t>(now.tv_nsec);
}

MemoryFile& MemoryFile::operator=(MemoryFile&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(id_, other.id_);
  return *this;
}

MemoryFile::~MemoryFile() {
  if (fd_ >= 0) ::close(fd_);
}

Result<MemoryFile> MemoryFile::create(size_t bytes) {
  if (!fits_file_limit(bytes)) return no_memory(EFBIG, bytes);
  const uint64_t id = random_id();
  const int fd = memfd_create(file_name(id).text, MFD_CLOEXEC);
  if (fd < 0) return no_memory(errno, bytes);
  MemoryFile file(fd, id);
  if (fchmod(fd, 0600) != 0) return Status::system(errno, "the emulated device cannot keep a memory file private");
  if (ftruncate(fd, static_cast<off_t>(bytes)) != 0) return no_memory(errno, bytes);
  return file;
}

Result<MemoryFile> MemoryFile::open(int pid, int fd, uint64_t id) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, fd);
  const int mine = ::open(path, O_RDWR | O_CLOEXEC);
  if (mine < 0) return cannot_open(errno, pid);
  MemoryFile file(mine, id);
  if (!is_file(mine, id)) return cannot_open(ENOENT, pid);
  return file;
}

}  // namespace gpucoll::gpu::emu
