#include "core/peer/peer_wait.h"

#include <sched.h>

#include <chrono>
#include <ctime>
#include <utility>

#include "base/log.h"
#include "base/params.h"

namespace gpucoll::core {

PeerWait::PeerWait(const Fault& fault, const Peers& peers, void (*idle)())
    : fault_(fault),
      peers_(peers),
      idle_(idle),
      since_(RunningClock::now()),
      began_(std::chrono::steady_clock::now()) {}

void PeerWait::progress() {
  since_ = RunningClock::now();
  began_ = std::chrono::steady_clock::now();
  looks_ = 0;
  logged_ = false;
  error_ = Status();
}

Status PeerWait::check(int peer, const char* what) {
  constexpr uint32_t kQuickLooks = 200, kLooksPerCheck = 64;
  constexpr timespec kNap = {0, 50'000};
  if (fault_.raised()) return fault_.status();
  if (!error_) return error_;
  if (++looks_ < kQuickLooks)
    sched_yield();
  else
    nanosleep(&kNap, nullptr);
  if (idle_) idle_();
  if (looks_ % kLooksPerCheck == 0) error_ = look_around(peer, what);
  return {};
}

Status PeerWait::look() {
  if (fault_.raised()) return fault_.status();
  if (idle_) idle_();
  return peers_.check();
}

Status PeerWait::look_around(int peer, const char* what) {
  GC_TRY(peers_.check());
  if (peers_.closing(peer))
    return Status::error(Code::remote,
                         "rank %d waits for %s from %s, which has finalised or destroyed the communicator",
                         peers_.number(peers_.rank()), what, peers_.name(peer).c_str());
  const auto waiting = RunningClock::now() - since_;
  const long long waited = std::chrono::duration_cast<std::chrono::seconds>(waiting).count();
  const auto is_over = [&](int64_t seconds) { return seconds && waited >= seconds; };
  constexpr char kSentence[] =
      "rank %d has waited %lld s (parameter %s) for %s from %s, which may have made no call that fits";
  if (is_over(params().report_after) && !std::exchange(logged_, true))
    log::write(log::Level::warn, kSentence, peers_.number(peers_.rank()), waited, "report_after", what,
               peers_.name(peer).c_str());
  if (!is_over(peers_.timeout())) return {};
  GC_TRY(peers_.stopped(began_, waited));
  return Status::error(Code::timed_out, kSentence, peers_.number(peers_.rank()), waited, "timeout", what,
                       peers_.name(peer).c_str())
      .blaming();
}

}  // namespace gpucoll::core
