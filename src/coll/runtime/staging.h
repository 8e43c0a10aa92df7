// Tells why collectives of one MPI communicator go through the host, and knows whether all of them do from now on.
//
// Thread safety: begin_for_all() and end() by one caller at a time; the rest any thread.
#pragma once
#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "base/log.h"
#include "base/observe/causes.h"
#include "base/status.h"

namespace gpucoll::coll {

class Staging {
 public:
  explicit Staging(std::shared_ptr<CauseLog> causes) : causes_(std::move(causes)) {}

  const std::shared_ptr<CauseLog>& causes() const noexcept { return causes_; }
  // Tells why a call goes through the host: in the log once for each cause.
  void tell(const char* call, const Status& why) { causes_->tell(why.cause(Cause::unsuitable), call, why.what()); }
  void tell(const char* call, Cause why) { causes_->tell(why, call); }

  // Returns whether all calls go through the host from now on.
  bool for_all() const noexcept { return for_all_; }
  // Sends all calls through the host from now on. level: of what tell_of_all() writes.
  void begin_for_all(Cause why, std::string more, log::Level level);
  // Does so without a cause, as the communicator ends.
  void end() noexcept { for_all_ = true; }
  // Tells of one call why all go through the host.
  void tell_of_all();

 private:
  const std::shared_ptr<CauseLog> causes_;
  std::atomic<bool> for_all_{false};
  // Why that is, once it is so; none: the communicator has ended.
  Cause why_ = Cause::none;
  std::string more_;
  log::Level level_ = log::Level::info;
};

}  // namespace gpucoll::coll
