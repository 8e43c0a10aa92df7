#include "core/peer/heart.h"

#include <algorithm>
#include <atomic>

#include "base/monotonic.h"
#include "base/mutant.h"

namespace gpucoll::core {
namespace {

using std::chrono::nanoseconds;
using std::chrono::steady_clock;

// By steady_clock; 0: it does not beat.
std::atomic<int64_t> last_beat_ns{0};
std::atomic<int64_t> all_pauses_ns{0}, pause_ns{0}, pause_end_ns{0};
// The one that others see.
std::atomic<int64_t> shown_pause_ns{0}, shown_end_ns{0};

// A pause is to blame for a wait of at most so many times its length.
constexpr int kPartOfWait = 4;

// From the last beat to `now`, where that is longer than usual.
int64_t pause_until(int64_t now, int64_t last_beat) {
  return last_beat && now - last_beat > Heart::kLongPause.count() ? now - last_beat : 0;
}

// Returns what the running clock leaves out of a pause: so it never goes back.
int64_t surplus(int64_t pause) { return pause ? pause - Heart::kLongPause.count() : 0; }

// Shows a pause that has just ended, unless a longer one may still be to blame: on a machine with too much to do, short
// ones follow it.
void note_pause(int64_t pause, int64_t now) {
  const int64_t shown = shown_pause_ns.load(std::memory_order_relaxed);
  const int64_t age = now - shown_end_ns.load(std::memory_order_relaxed);
  if (pause < shown && age < kPartOfWait * shown && !gc_mutant(139)) return;
  shown_pause_ns.store(pause, std::memory_order_relaxed);
  shown_end_ns.store(now, std::memory_order_relaxed);
}

}  // namespace

void Heart::beat() noexcept {
  const int64_t now = monotonic_ns();
  if (const int64_t pause = pause_until(now, last_beat_ns.load(std::memory_order_relaxed))) {
    pause_ns.store(pause, std::memory_order_relaxed);
    pause_end_ns.store(now, std::memory_order_relaxed);
    note_pause(pause, now);
    all_pauses_ns.fetch_add(surplus(pause), std::memory_order_relaxed);
  }
  // Release: who sees this beat sees that the pause before it has been counted. Partner: RunningClock::at.
  last_beat_ns.store(now, std::memory_order_release);
}

void Heart::rest() noexcept { last_beat_ns.store(0, std::memory_order_release); }

void Heart::show(gc_pulse* pulse) noexcept {
  const auto store = [](uint64_t* to, int64_t value) {
    __atomic_store_n(to, static_cast<uint64_t>(value), __ATOMIC_RELAXED);
  };
  store(&pulse->pause_ns, shown_pause_ns.load(std::memory_order_relaxed));
  store(&pulse->pause_end_ns, shown_end_ns.load(std::memory_order_relaxed));
  __atomic_store_n(&pulse->beat_ns, static_cast<uint64_t>(last_beat_ns.load(std::memory_order_relaxed)),
                   __ATOMIC_RELEASE);  // partner: silence()
}

nanoseconds Heart::silence(const gc_pulse& pulse, steady_clock::time_point since) noexcept {
  const auto beat = static_cast<int64_t>(__atomic_load_n(&pulse.beat_ns, __ATOMIC_ACQUIRE));
  if (!beat || gc_mutant(131)) return nanoseconds(0);
  if (const int64_t pause = pause_until(monotonic_ns(), beat)) return nanoseconds(pause);
  const auto end = static_cast<int64_t>(__atomic_load_n(&pulse.pause_end_ns, __ATOMIC_RELAXED));
  if (end <= nanoseconds(since.time_since_epoch()).count()) return nanoseconds(0);
  return nanoseconds(static_cast<int64_t>(__atomic_load_n(&pulse.pause_ns, __ATOMIC_RELAXED)));
}

nanoseconds Heart::waited(steady_clock::time_point start) noexcept {
  const int64_t now = monotonic_ns(), begin = nanoseconds(start.time_since_epoch()).count();
  const int64_t last = last_beat_ns.load(std::memory_order_acquire);  // partner: beat()
  const int64_t end = pause_end_ns.load(std::memory_order_relaxed), pause = pause_ns.load(std::memory_order_relaxed);
  int64_t paused = std::min(surplus(pause_until(now, last)), now - begin);
  if (end > begin) paused += std::min(surplus(pause), end - begin);
  return nanoseconds(gc_mutant(132) ? now - begin : now - begin - paused);
}

RunningClock::time_point RunningClock::at(steady_clock::time_point now) noexcept {
  const int64_t wall = nanoseconds(now.time_since_epoch()).count();
  const int64_t last = last_beat_ns.load(std::memory_order_acquire);  // partner: Heart::beat
  const int64_t pauses = all_pauses_ns.load(std::memory_order_relaxed) + surplus(pause_until(wall, last));
  return time_point(nanoseconds(gc_mutant(132) ? wall : wall - pauses));
}

Status stopped(const std::string& who, nanoseconds silence, int rank, long long waited_s, bool is_remote) {
  if (silence * kPartOfWait < std::chrono::seconds(waited_s)) return {};
  constexpr char kHere[] =
      "%s did not run for %.1f s, as if it was stopped or in a debugger, while rank %d waited %lld s (parameter "
      "timeout)";
  constexpr char kThere[] =
      "%s sent no sign of life for %.1f s, while rank %d waited %lld s (parameter timeout): it is stopped, or the "
      "network between the hosts carries nothing";
  const double seconds = std::chrono::duration<double>(silence).count();
  return Status::error(Code::timed_out, is_remote ? kThere : kHere, who.c_str(), seconds, rank, waited_s).blaming();
}

}  // namespace gpucoll::core
