// Tells whether another process of this node still lives. A pidfd stays right when process ids are used again, and sees
// a process that has ended and was not yet reaped.
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
  // Shared by all that watch one process: a thousand communicators with the same members need one descriptor for each
  // member.
  std::shared_ptr<const UniqueFd> pidfd_;
  bool gone_ = false;  // the process was gone already at the time of opening
  // Where there is no pidfd: which process it is, as a later one may get its id; 0: nobody knows.
  pid_t pid_ = 0;
  uint64_t start_ = 0;
};

}  // namespace gpucoll::core
