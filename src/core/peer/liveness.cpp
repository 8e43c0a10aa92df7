#include "core/peer/liveness.h"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <string>

#include "base/mutant.h"
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
  long fd = gc_mutant(391) ? (errno = ENOSYS, -1) : syscall(SYS_pidfd_open, pid, 0);
  if (fd < 0) return nullptr;
  shared = std::make_shared<const UniqueFd>(static_cast<int>(fd));
  known = shared;
  return shared;
}

// Returns when a process started, in the kernel's ticks since the machine did, and 0 where that cannot be read; *ended:
// it waits to be reaped.
uint64_t start_of(pid_t pid, bool* ended) noexcept {
  *ended = false;
  try {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string text((std::istreambuf_iterator<char>(file)), {});
    const size_t name_end = text.rfind(')');  // a name may have anything in it
    if (name_end == std::string::npos) return 0;
    std::istringstream fields(text.substr(name_end + 1));
    std::string state, skipped;
    fields >> state;
    *ended = state == "Z" || state == "X";
    constexpr int kBetweenStateAndStart = 18;
    for (int i = 0; i < kBetweenStateAndStart; ++i) fields >> skipped;
    uint64_t start = 0;
    fields >> start;
    return start;
  } catch (...) {
    return 0;
  }
}

bool is_unknown(pid_t pid) noexcept { return kill(pid, 0) != 0 && errno == ESRCH; }

}  // namespace

// Kernels before 5.3 and some sandboxes know no pidfds.
Liveness::Liveness(pid_t pid) {
  if (pid == getpid()) return;
  errno = 0;
  pidfd_ = pidfd_of(pid);
  gone_ = !pidfd_ && errno == ESRCH;
  if (pidfd_ || gone_) return;
  const int why = errno;
  pid_ = pid;
  bool ended = false;
  start_ = start_of(pid, &ended);
  gone_ = ended || is_unknown(pid);
  errno = why;
}

Result<Liveness> Liveness::of(pid_t pid) {
  errno = 0;
  Liveness liveness(pid);
  if (pid != getpid() && !liveness.pidfd_ && no_descriptor_left(errno))
    return Status::system(errno, "cannot watch process %d", pid);
  return liveness;
}

bool Liveness::alive() const noexcept {
  if (gone_) return false;
  if (pidfd_) return !ended(pidfd_->get());
  if (pid_ == 0) return true;
  bool zombie = false;
  const uint64_t start = start_of(pid_, &zombie);  // 0 also where no descriptor is left to look
  return !zombie && !is_unknown(pid_) && (start == 0 || start_ == 0 || start == start_);
}

}  // namespace gpucoll::core
