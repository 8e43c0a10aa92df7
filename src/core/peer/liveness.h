// Tells whether another process of this node still lives. A pidfd stays right when process ids are used again, and sees
// a process that has ended and was not yet reaped. A process that runs another program (exec) has ended, too: the
// memory that others shared with it is gone. No pidfd tells that, but a file of /proc that was opened before then has
// nothing to read any more (docs/adr/0054-a-process-that-execs-has-ended.md).
// Thread safety: a value type; any thread may make one.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <memory>

#include "base/status.h"
#include "base/unique_fd.h"

namespace gpucoll::core {

class Liveness {
 public:
  Liveness() = default;
  // Watches a process. alive() is always true for this very process, and where the system cannot watch processes.
  explicit Liveness(pid_t pid);
  // Watches as the constructor does. Errors: system, where no descriptor is left to watch the process by.
  static Result<Liveness> of(pid_t pid);
  bool alive() const noexcept;

 private:
  // Shared by all that watch one process: a thousand communicators with the same members need two descriptors for each
  // member.
  struct Process;
  static std::shared_ptr<const Process> watch(pid_t pid);
  std::shared_ptr<const Process> process_;  // null where there is no pidfd
  bool gone_ = false;                       // the process was gone already at the time of opening
  // Where there is no pidfd: which process it is, as a later one may get its id; 0: nobody knows.
  pid_t pid_ = 0;
  uint64_t start_ = 0;
};

}  // namespace gpucoll::core
