#include "core/liveness.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace gpucoll::core {

Liveness::Liveness(pid_t pid) {
  if (pid == getpid()) return;
  long fd = syscall(SYS_pidfd_open, pid, 0);
  if (fd >= 0) pidfd_ = UniqueFd(static_cast<int>(fd));
  gone_ = fd < 0 && errno == ESRCH;
}

bool Liveness::alive() const noexcept {
  if (gone_) return false;
  if (!pidfd_) return true;
  pollfd fds = {pidfd_.get(), POLLIN, 0};
  return poll(&fds, 1, 0) <= 0;
}

}  // namespace gpucoll::core
