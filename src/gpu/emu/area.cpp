#include "gpu/emu/area.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "gpu/hint.h"

namespace gpucoll::gpu::emu {
namespace {

constexpr size_t kLeastReservation = size_t{1} << 30;

void* at(uintptr_t address) { return reinterpret_cast<void*>(address); }

size_t file_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return SIZE_MAX;
  return std::max<size_t>(static_cast<size_t>(limit.rlim_cur) / page_bytes() * page_bytes(), page_bytes());
}

}  // namespace

size_t page_bytes() noexcept {
  static const size_t bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

size_t round_to_pages(size_t bytes) noexcept { return (bytes + page_bytes() - 1) & ~(page_bytes() - 1); }

Status Area::reserve(size_t bytes, bool strict) {
  strict_ = strict;
  size_t size = std::min(round_to_pages(bytes), file_limit());
  const size_t least = std::min(size, kLeastReservation);
  while (!reserve_exactly(size)) {
    if (size == least)
      return Status::error(Code::out_of_memory,
                           "the emulated device cannot reserve 2 x %zu bytes of address space (%s); raise `ulimit -v` "
                           "or lower the parameter emu_memory",
                           size, std::strerror(errno));
    size = std::max(round_to_pages(size / 2), least);
  }
  GC_TRY(map_file());
  set_device_range(user_, user_ + bytes_);
  return {};
}

bool Area::reserve_exactly(size_t bytes) {
  void* start = mmap(nullptr, 2 * bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (start == MAP_FAILED) return false;
  user_ = reinterpret_cast<uintptr_t>(start);
  bytes_ = bytes;
  return true;
}

// Puts the memory file under both areas (in strict mode the user area stays what it is: nothing).
Status Area::map_file() {
  Status status;
  if (auto file = MemoryFile::create(bytes_)) {
    file_ = std::move(*file);
  } else {
    status = std::move(file).status();
  }
  for (uintptr_t start : {user_ + bytes_, user_}) {
    if (!status || (start == user_ && strict_)) break;
    if (mmap(at(start), bytes_, PROT_NONE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, file_.fd(), 0) == MAP_FAILED)
      status = Status::error(Code::out_of_memory, "the emulated device cannot map its %zu bytes of memory (%s)", bytes_,
                             std::strerror(errno));
  }
  if (!status) {
    munmap(at(user_), 2 * bytes_);
    bytes_ = 0;
  }
  return status;
}

Status Area::open(size_t offset, size_t bytes) {
  const int access = PROT_READ | PROT_WRITE;
  const bool opened = mprotect(at(user_ + delta() + offset), bytes, access) == 0 &&
                      (strict_ || mprotect(at(user_ + offset), bytes, access) == 0);
  if (opened) return {};
  const int errnum = errno;
  close(offset, bytes);
  return Status::error(Code::out_of_memory,
                       "the emulated device cannot map %zu bytes (%s); too many allocations for vm.max_map_count?",
                       bytes, std::strerror(errnum));
}

void Area::close(size_t offset, size_t bytes) noexcept {
  // A failure would only leave memory in use for longer; there is nothing better to do.
  mprotect(at(user_ + delta() + offset), bytes, PROT_NONE);
  if (!strict_) mprotect(at(user_ + offset), bytes, PROT_NONE);
  const int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  while (fallocate(file_.fd(), mode, static_cast<off_t>(offset), static_cast<off_t>(bytes)) != 0 && errno == EINTR) {
  }
}

}  // namespace gpucoll::gpu::emu
