// Whether another process of this node still lives. A pidfd stays right when process ids are used again, and sees a
// process that has ended and was not yet reaped. Thread safety: a value type; making one, from any thread.
#pragma once
#include <sys/types.h>

#include <memory>

#include "base/status.h"
#include "base/unique_fd.h"

namespace gpucoll::core {

class Liveness {
 public:
  Liveness() = default;
  // For this very process, and where the system cannot watch processes, alive() is always true.
  explicit Liveness(pid_t pid);
  // The same. Errors: system, where no descriptor is left to watch it by.
  static Result<Liveness> of(pid_t pid);
  bool alive() const noexcept;

 private:
  // Shared by all that watch one process: a thousand communicators with the same members need one descriptor a member.
  std::shared_ptr<const UniqueFd> pidfd_;
  bool gone_ = false;  // already at the time of opening
};

}  // namespace gpucoll::core
