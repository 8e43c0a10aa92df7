#include "core/connect/link_progress.h"

#include <algorithm>

#include "base/observe/trace.h"

namespace gpucoll::core {

using net::StepProgress;

void LinkProgress::wake() {
  wakes_.fetch_add(1, std::memory_order_release);
  Proxy::instance().wake();
}

void LinkProgress::add(int peer, net::LinkEnd& end) {
  {
    std::lock_guard lock(mutex_);
    links_.push_back({peer, &end, {}});
  }
  wake();
}

Status LinkProgress::failure(const std::function<bool(int peer)>& counts, int* peer) const {
  std::lock_guard lock(mutex_);
  for (const Moved& link : links_) {
    if (link.failure || !counts(link.peer)) continue;
    *peer = link.peer;
    return link.failure;
  }
  return {};
}

// REQUIRES: the mutex.
StepProgress LinkProgress::move(Moved& link) noexcept {
  if (!link.failure) return StepProgress::none;
  const int64_t begin = trace::on() ? monotonic_ns() : 0;
  auto moved = contained([&] { return link.end->progress(); });
  if (begin && moved && *moved == StepProgress::moved)
    trace::add(begin, {.what = trace::What::network, .peer = link.peer});
  if (moved) return *moved;
  link.failure = std::move(moved).status();
  return StepProgress::none;
}

// REQUIRES: the mutex.
StepProgress LinkProgress::move_all() noexcept {
  auto most = StepProgress::none;
  for (Moved& link : links_) most = std::max(most, move(link));
  return most;
}

// Reads the wakes, then the activity, and then moves steps: so a round that finds no activity moves all that kernels
// have stored before they ended, also those that began and ended since the last round. A communicator that rests costs
// the others' rounds no system call.
LinkProgress::Progress LinkProgress::progress() noexcept {
  // Acquire: partner is wake().
  const uint64_t wakes = wakes_.load(std::memory_order_acquire);
  const KernelActivity activity = activity_();
  std::lock_guard lock(mutex_);
  if (activity == KernelActivity::none && rested_at_ == wakes) return Progress::none_pending;
  const StepProgress moved = move_all();
  if (activity == KernelActivity::none && moved == StepProgress::none) rested_at_ = wakes;
  if (moved == StepProgress::moved) return Progress::moved;
  if (moved == StepProgress::pending || activity == KernelActivity::launched) return Progress::waiting;
  return activity == KernelActivity::in_graphs ? Progress::watching : Progress::none_pending;
}

}  // namespace gpucoll::core
