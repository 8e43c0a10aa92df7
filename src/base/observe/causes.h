// Tells why calls and messages do not go the fast way (causes.def): once in the log for each communicator and cause,
// and each time in MPI_T's performance variables and in traces. The fast way never comes here. Whoever holds a lock
// has a log::Later outside of it.
//
// Thread safety: any thread; nothing waits.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/log.h"

namespace gpucoll {

enum class Cause : uint8_t {
#define GC_CAUSE(name, instead, why, advice) name,
#include "base/observe/causes.def"
#undef GC_CAUSE
  none
};
static_assert(static_cast<size_t>(Cause::none) <= 64, "the masks have 64 bits");

struct CauseInfo {
  const char *name, *instead, *why, *advice;
};
// REQUIRES: cause is not Cause::none.
const CauseInfo& cause_info(Cause cause) noexcept;

// Which causes have been told of a communicator: at all, and as warnings.
struct ToldCauses {
  std::atomic<uint64_t> at_all{0}, warnings{0};
};

// Counts and records that `what` (a function, or "a message") does not go the fast way, and logs it unless `told` has
// the cause; a warning comes even after a line that is none. of: the communicator. detail: what this rank knows
// besides; may be "". group: of traces, or 0.
void tell_cause(ToldCauses& told, Cause cause, const char* what, const char* of, const char* detail = "",
                uint64_t group = 0, log::Level level = log::Level::info) noexcept;

// Keeps what has been told of one communicator.
class CauseLog {
 public:
  explicit CauseLog(std::string of, uint64_t group = 0) : of_(std::move(of)), group_(group) {}
  void tell(Cause cause, const char* what, const char* detail = "", log::Level level = log::Level::info) noexcept {
    tell_cause(told_, cause, what, of_.c_str(), detail, group_, level);
  }

 private:
  const std::string of_;
  const uint64_t group_;
  ToldCauses told_;
};

}  // namespace gpucoll
