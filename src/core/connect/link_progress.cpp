#include "core/connect/link_progress.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/mutant.h"
#include "base/observe/trace.h"

namespace gpucoll::core {

using net::StepProgress;

void LinkProgress::wake() {
  wakes_.fetch_add(1, std::memory_order_release);
  Proxy::instance().wake();
}

void LinkProgress::finish() {
  {
    std::lock_guard lock(mutex_);
    moved_at_ = std::chrono::steady_clock::now();
  }
  finishes_.store(true, std::memory_order_release);  // behind the counts; partners: progress(), expect_ends()
  wake();
}

void LinkProgress::add(int peer, net::LinkEnd& end, std::optional<net::Side> messages) {
  {
    std::lock_guard lock(mutex_);
    links_.push_back({peer, &end, messages});
  }
  wake();
}

size_t LinkProgress::unacknowledged() const {
  std::lock_guard lock(mutex_);
  size_t all = 0;
  for (const Moved& link : links_)
    if (link.failure) all += (link.finished ? 0 : 1) + link.end->unacknowledged();
  return all;
}

// A rank that has finished its own end needs nothing any more, and its peer's end has nowhere to go.
bool LinkProgress::expects_end(const Moved& link) const noexcept {
  return link.closing && link.failure && (!link.finished || gc_mutant(502)) && !link.end->peer_end();
}

// REQUIRES: finish().
bool LinkProgress::is_unsent(const Moved& link) const noexcept { return link.failure && !link.rests; }

void LinkProgress::expect_ends(const std::function<bool(int peer)>& is_closing) {
  bool any = false;
  const bool closes = finishes_.load(std::memory_order_acquire);
  {
    std::lock_guard lock(mutex_);
    for (Moved& link : links_) {
      if (!link.closing && link.end->tells_end()) link.closing = is_closing(link.peer);
      any |= expects_end(link) || (closes && is_unsent(link));
    }
  }
  if (any && !gc_mutant(496)) wake();
}

LinkProgress::Failure LinkProgress::failure(const std::function<bool(int peer)>& is_closing, bool outstanding) const {
  Failure perhaps;
  std::lock_guard lock(mutex_);
  for (const Moved& link : links_) {
    if (link.failure) continue;
    if (link.told || !is_closing(link.peer) || (outstanding && link.end->tells_end())) return {link.failure, link.peer};
    if (outstanding && perhaps.why) perhaps = {link.failure, link.peer, false};
  }
  return perhaps;
}

// REQUIRES: the mutex.
StepProgress LinkProgress::move(Moved& link) noexcept {
  if (!link.failure) return StepProgress::none;
  const int64_t begin = trace::on() ? monotonic_ns() : 0;
  auto moved = contained([&] { return link.end->progress(); });
  if (begin && moved && *moved == StepProgress::moved)
    trace::add(begin, {.what = trace::What::network, .peer = link.peer});
  link.failure = moved ? contained([&] { return compare_end(link); }) : std::move(moved).status();
  link.told = moved && !link.failure;
  link.rests = moved && *moved == StepProgress::none;
  return moved && link.failure ? *moved : StepProgress::none;
}

// The other end has told it behind all its steps: what it has not sent or drained until then never comes.
Status LinkProgress::compare_end(const Moved& link) const {
  const auto theirs = link.end->peer_end();
  if (!theirs) return {};
  if (link.messages && counts_) {
    const uint64_t mine = counts_->least(link.peer, *link.messages);
    if (mine > theirs->messages && !gc_mutant(492))
      return Status::error(Code::remote,
                           "the other side has closed the communicator after %llu of the %llu messages that this rank "
                           "%s",
                           static_cast<unsigned long long>(theirs->messages), static_cast<unsigned long long>(mine),
                           *link.messages == net::Side::send ? "sends" : "receives");
  }
  if (theirs->all_taken || gc_mutant(493)) return {};
  return Status::error(Code::remote, "the other side has closed the communicator before it has taken all data");
}

// REQUIRES: the mutex.
StepProgress LinkProgress::move_all() noexcept {
  auto most = StepProgress::none;
  for (Moved& link : links_) most = std::max(most, move(link));
  return most;
}

// REQUIRES: the mutex; the links have been moved, and no kernel runs. Returns whether the ends may have something more
// to send. A link that its peer does not empty keeps no other one from its end.
bool LinkProgress::finish_rested() noexcept {
  bool any = false;
  const auto rests = [](const Moved& link) { return link.rests; };
  if (gc_mutant(504) && !std::all_of(links_.begin(), links_.end(), rests)) return false;
  for (Moved& link : links_) {
    if (!link.failure || !link.rests || std::exchange(link.finished, true)) continue;
    const uint64_t messages =
        link.messages && counts_ ? counts_->told(link.peer, *link.messages) : proto::kUnknownMessages;
    link.end->finish(messages);
    any = true;
  }
  return any;
}

// Returns whether steps may move soon: those that are left, or what peers that are closing send. A peer that is stopped
// takes nothing, and sends no mark, so the watchdog wakes the proxy for these (expect_ends). `closes`: this rank
// closes, and no kernel runs. REQUIRES: the mutex.
bool LinkProgress::goes_on_soon(StepProgress moved, bool closes) noexcept {
  constexpr std::chrono::milliseconds kSoon(10), kSoonTaken(500);
  const bool left = moved == StepProgress::pending;
  if (left && !closes) return true;
  const bool expects =
      std::any_of(links_.begin(), links_.end(), [this](const Moved& link) { return expects_end(link); });
  if (!closes && !expects) return false;
  const auto now = std::chrono::steady_clock::now();
  if (moved == StepProgress::moved) moved_at_ = now;
  if (left) return now - moved_at_ < kSoonTaken || gc_mutant(512);
  return expects && (now - moved_at_ < kSoon || gc_mutant(503));
}

// Reads the wakes, then the activity, and then moves steps: so a round that finds no activity moves all that kernels
// have stored before they ended, also those that began and ended since the last round. A communicator that rests costs
// the others' rounds no system call.
LinkProgress::Progress LinkProgress::progress() noexcept {
  // Acquire: partner is wake().
  const uint64_t wakes = wakes_.load(std::memory_order_acquire);
  const bool finishes = finishes_.load(std::memory_order_acquire);
  const KernelActivity activity = activity_();
  std::lock_guard lock(mutex_);
  const bool rested = gc_mutant(528) ? rested_at_ == wakes : rested_at_ >= wakes;
  if (activity == KernelActivity::none && rested) return Progress::none_pending;
  const StepProgress moved = move_all();
  if (finishes && activity != KernelActivity::launched && finish_rested()) return Progress::moved;
  const bool none_runs = activity == KernelActivity::none;
  const bool soon = goes_on_soon(moved, finishes && none_runs);
  if (none_runs && moved != StepProgress::moved && !soon) rested_at_ = wakes;
  if (moved == StepProgress::moved) return Progress::moved;
  if (soon || activity == KernelActivity::launched) return Progress::waiting;
  return activity == KernelActivity::in_graphs ? Progress::watching : Progress::none_pending;
}

}  // namespace gpucoll::core
