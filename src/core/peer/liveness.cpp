#include "core/peer/liveness.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <mutex>

#include "base/system_limits.h"

namespace gpucoll::core {
namespace {

using SharedPidfd = std::shared_ptr<const UniqueFd>;

bool ended(int pidfd) noexcept {
  pollfd fds = {pidfd, POLLIN, 0};
  return poll(&fds, 1, 0) > 0;
}

struct Watching {
  std::mutex mutex;
  std::map<pid_t, std::weak_ptr<const UniqueFd>> by_pid;
};

// Null, with errno, where the process cannot be watched.
SharedPidfd pidfd_of(pid_t pid) {
  static Watching* watching = new Watching;  // other threads may still ask while statics are torn down
  std::lock_guard lock(watching->mutex);
  auto& known = watching->by_pid[pid];
  SharedPidfd shared = known.lock();
  // A process that has ended may have left its id to the one that is asked for now.
  if (shared && !ended(shared->get())) return shared;
  long fd = syscall(SYS_pidfd_open, pid, 0);
  if (fd < 0) return nullptr;
  shared = std::make_shared<const UniqueFd>(static_cast<int>(fd));
  known = shared;
  return shared;
}

}  // namespace

Liveness::Liveness(pid_t pid) {
  if (pid == getpid()) return;
  errno = 0;
  pidfd_ = pidfd_of(pid);
  gone_ = !pidfd_ && errno == ESRCH;
}

Result<Liveness> Liveness::of(pid_t pid) {
  errno = 0;
  Liveness liveness(pid);
  if (pid != getpid() && !liveness.pidfd_ && no_descriptor_left(errno))
    return Status::system(errno, "cannot watch process %d", pid);
  return liveness;
}

bool Liveness::alive() const noexcept { return !gone_ && (!pidfd_ || !ended(pidfd_->get())); }

}  // namespace gpucoll::core
