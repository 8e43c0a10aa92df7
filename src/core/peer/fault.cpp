#include "core/peer/fault.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/log.h"
#include "base/monotonic.h"
#include "base/mutant.h"

namespace gpucoll::core {

Status given_up(const std::string& who, const Status& why) {
  if (why.blames() && !gc_mutant(130)) return why;
  return Status::error(why.code(), "%s gave up: %s: %s", who.c_str(), describe(why.code()), why.what()).blaming();
}

Status named(const Status& status, const std::string& name) {
  if (status || name.empty() || gc_mutant(342)) return status;
  Status told = Status::error(status.code(), "communicator %s: %s", name.c_str(), status.what());
  return status.blames() ? std::move(told).blaming() : told;
}

void Fault::attach(proto::FaultLatch* for_kernels, proto::ControlPage* for_peers, std::string self, std::string of,
                   std::function<void()> tell) {
  std::lock_guard lock(mutex_);
  tell_ = std::move(tell);
  of_ = std::move(of);
  self_ = std::move(self);
  latch_ = for_kernels;
  page_ = for_peers;
}

// REQUIRES: a page, and the mutex.
void Fault::write_text(const Status& status) noexcept {
  const char* text = status.what();
  Status told;
  try {
    if (!self_.empty()) text = (told = given_up(self_, status)).what();
  } catch (...) {
    // No memory to say it better.
  }
  std::snprintf(page_->fault_text, sizeof page_->fault_text, "%s", text);
}

// REQUIRES: as write_text().
void Fault::tell_peers(const Status& status) noexcept {
  write_text(status);
  // Release: partner is the acquire in Peers::fault.
  __atomic_store_n(&page_->fault, static_cast<uint32_t>(status.code()), __ATOMIC_RELEASE);
  if (tell_ && !gc_mutant(612)) tell_();
}

void Fault::end_kernels() noexcept {
  // Release: whoever sees kernels end by it sees what is stored before.
  if (latch_) __atomic_store_n(&latch_->abort, 1u, __ATOMIC_RELEASE);
}

void Fault::raise(const Status& status) noexcept {
  std::lock_guard lock(mutex_);
  if (raised_.load(std::memory_order_relaxed)) return;
  raised_ns_ = monotonic_ns();
  try {
    status_ = named(status, of_);
    status_.mark_told();
  } catch (...) {
    status_ = Status();  // no memory for the sentence: the latch alone has to do
  }
  if (gc_mutant(133)) end_kernels();
  if (page_) tell_peers(status);  // before this rank's program finds it
  // Before the kernels: a program that finds its stream ended asks the host what happened, and must be told.
  raised_.store(true, std::memory_order_release);
  end_kernels();
  const log::Level level = closed_ ? log::Level::debug : log::Level::error;
  if (status.code() != Code::aborted) log::write(level, "%s", (status_ ? status : status_).what());
}

void Fault::close() noexcept {
  std::lock_guard lock(mutex_);
  closed_ = !gc_mutant(614);
}

int64_t Fault::age_ns(int64_t since_ns) const noexcept { return monotonic_ns() - std::max(since_ns, raised_ns_); }

Status Fault::status() const {
  if (!raised()) return {};
  std::lock_guard lock(mutex_);
  return status_ ? Status::error(Code::internal, "the communicator failed and no memory was left to say why") : status_;
}

}  // namespace gpucoll::core
