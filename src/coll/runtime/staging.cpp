#include "coll/runtime/staging.h"

namespace gpucoll::coll {
namespace {

constexpr char kEveryCall[] = "a collective on device memory, as all others,";

}  // namespace

void Staging::begin_for_all(Cause why, std::string more, log::Level level) {
  why_ = why;
  more_ = std::move(more);
  level_ = level;
  for_all_ = true;
}

// Warns of what ranks are once a process, and not for each communicator.
void Staging::tell_of_all() {
  static std::atomic<bool> warned{false};
  log::Level level = level_;
  if (why_ == Cause::unreachable_rank && level == log::Level::warn && warned.exchange(true)) level = log::Level::info;
  causes_->tell(why_, kEveryCall, more_.c_str(), level);
}

}  // namespace gpucoll::coll
