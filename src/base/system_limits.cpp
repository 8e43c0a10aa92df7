#include "base/system_limits.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <limits>
#include <optional>

namespace gpucoll {
namespace {

struct Owner {
  long uids[3], gids[3];  // real, effective, saved
  bool is(uid_t uid, gid_t gid) const {
    return std::all_of(std::begin(uids), std::end(uids), [=](long id) { return id == static_cast<long>(uid); }) &&
           std::all_of(std::begin(gids), std::end(gids), [=](long id) { return id == static_cast<long>(gid); });
  }
};

std::optional<Owner> owner_of(pid_t pid) {
  char path[40], line[256];
  std::snprintf(path, sizeof path, "/proc/%d/status", pid);
  FILE* const file = std::fopen(path, "re");
  if (!file) return {};
  Owner owner = {};
  int found = 0;
  while (std::fgets(line, sizeof line, file)) {
    found += std::sscanf(line, "Uid: %ld %ld %ld", &owner.uids[0], &owner.uids[1], &owner.uids[2]) == 3;
    found += std::sscanf(line, "Gid: %ld %ld %ld", &owner.gids[0], &owner.gids[1], &owner.gids[2]) == 3;
  }
  std::fclose(file);
  return found == 2 ? std::optional(owner) : std::nullopt;
}

// Returns whether a process's user namespace has all users of the system, as that in which the system starts.
bool has_all_users(const char* map) {
  unsigned long first = 1, outside = 1, count = 0;
  FILE* const file = std::fopen(map, "re");
  if (!file) return true;
  const bool read = std::fscanf(file, "%lu %lu %lu", &first, &outside, &count) == 3;
  std::fclose(file);
  return read && first == 0 && outside == 0 && count == std::numeric_limits<uint32_t>::max();
}

bool may_differ_in_namespace(pid_t pid) {
  char map[40];
  std::snprintf(map, sizeof map, "/proc/%d/uid_map", pid);
  return !has_all_users("/proc/self/uid_map") || !has_all_users(map);
}

}  // namespace

bool no_descriptor_left(int errnum) noexcept { return errnum == EMFILE || errnum == ENFILE; }

size_t most_descriptors() noexcept {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit)) return 0;
  return static_cast<size_t>(std::min<rlim_t>(limit.rlim_cur, std::numeric_limits<int>::max()));
}

const char* limit_advice(int errnum) noexcept {
  switch (errnum) {
    case EMFILE: return "; raise `ulimit -n`, the number of files that a process may have open";
    case ENFILE: return "; raise fs.file-max, the number of files that all processes may have open";
    case EFBIG: return "; raise `ulimit -f`, the size of a file, and so of shared memory";
    default: return "";
  }
}

void widen_descriptor_table() noexcept {
  constexpr int kLast = 1023;
  const int any = open("/", O_PATH | O_CLOEXEC);
  if (any < 0) return;
  const int last = fcntl(any, F_DUPFD_CLOEXEC, kLast);
  if (last >= 0) close(last);
  close(any);
}

bool fits_file_limit(size_t bytes) noexcept {
  rlimit limit{};
  return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur;
}

std::string process_obstacle(int errnum, pid_t pid) {
  if (*limit_advice(errnum)) return limit_advice(errnum);
  if (kill(pid, 0) != 0 && errno == ESRCH)
    return "; it has ended, or is in another container: run all ranks of a node in one process-id namespace";
  if (errnum != EACCES && errnum != EPERM) return "; it has ended, or has let it go";
  const auto owner = owner_of(pid);
  const bool is_own = owner && owner->is(geteuid(), getegid());
  if (is_own && may_differ_in_namespace(pid))
    return "; it is in another user namespace (run all ranks of a node in one container; Apptainer: --sharens), or "
           "it is not dumpable (let it call prctl(PR_SET_DUMPABLE, 1) before it uses gpucoll)";
  if (is_own)
    return "; it is not dumpable, as after a change of user: let it call prctl(PR_SET_DUMPABLE, 1) before it uses "
           "gpucoll";
  return "; it runs as another user or group: run all ranks of a node as one user";
}

}  // namespace gpucoll
