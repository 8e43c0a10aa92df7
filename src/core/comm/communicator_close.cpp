// How a communicator ends: it waits for what it has launched, tells the peers, and knows when they need it no more.
#include <ctime>

#include "base/monotonic.h"
#include "base/mutant.h"
#include "core/comm/communicator.h"
#include "core/connect/end_wait.h"

namespace gpucoll::core {

Status Communicator::settle(void (*idle)(), int64_t since_ns) {
  await(launched(), idle, false, since_ns).ignore();
  calls_.await(idle, gc_mutant(625) ? since_ns : monotonic_ns(), [this] { return fault().raised(); });
  if (gc_mutant(145) == 0) compare_calls();
  Status status = gc_mutant(141) != 0 ? fault().status() : await_graphs(idle, since_ns);
  if (!status && user_buffers_ && user_buffers_->has_granted()) notices_.await_left(*connections_, since_ns);
  return status;
}

Status Communicator::settle(void (*idle)()) { return settle(idle, monotonic_ns()); }

Status Communicator::begin_close(void (*idle)(), int64_t since_ns) {
  if (closing_) return fault().status();
  const uint64_t before = launched();
  Status status = settle(idle, since_ns);
  // Another thread may have been about to launch when the fault was raised.
  if (fault().raised() && !gc_mutant(425)) {
    await_callers(since_ns);
    if (launched() != before) await(launched(), idle, false, monotonic_ns()).ignore();
  }
  graphs_.end();
  launch_nothing_more();
  return status;
}

// A connection that breaks from begin_close() on is no failure here: all that this rank receives has come, as its
// launches have ended. Where what it sends is lost, the peer misses the end mark and fails, and a peer that has aborted
// may have taken all without saying so.
Status Communicator::finish(void (*idle)()) {
  if (closing_) return fault().status();
  Status status = begin_close(idle, monotonic_ns());
  await_ends([this] { return are_ends_taken(); });
  return status;
}

// Waits for the launches of graphs that have begun, and, unless the communicator has failed, for those that have been
// asked for: after a fault, what begins ends at once. What never ends is left to the watchdog, which raises a fault.
Status Communicator::await_graphs(void (*idle)(), int64_t since_ns) {
  constexpr int64_t kGraceNs = 10'000'000'000;  // for kernels to leave once the latch is set
  constexpr timespec kNap = {0, 50'000};
  const int64_t begin = monotonic_ns(), patience = peers_.timeout();
  for (;;) {
    look_at_device();
    const bool failed = fault().raised();
    if (device_failed()) break;
    if (words_.running_in_graphs() == 0 && (failed || !launcher_ || launcher_->rests())) break;
    if (failed && fault_.age_ns(since_ns) > kGraceNs) break;
    if (words_.running_in_graphs() == 0 && patience && (monotonic_ns() - begin) / 1'000'000'000 > patience) break;
    if (idle) idle();
    nanosleep(&kNap, nullptr);
  }
  return fault().status();
}

// REQUIRES: done(launched()), or a fault.
void Communicator::launch_nothing_more() noexcept {
  graphs_.note_end();  // before tell_closing()
  closing_ = true;
  const bool orderly = !fault_.raised();
  if (orderly) fault_.close();                         // before the others can fail of it
  if (orderly || has_left()) notices_.tell_closing();  // else the watchdog does, when they have
  if (orderly) connections_->links().finish();         // peers that rest receive once they know
}

bool Communicator::peers_closed() const noexcept { return notices_.have_ended(*connections_, lands(), true); }
bool Communicator::peers_rest() const noexcept { return notices_.have_ended(*connections_, lands(), false); }

bool Communicator::has_left() const noexcept {
  return unused() && !(copies_ && copies_->is_putting_reductions()) && ended();
}

// A caller that comes in from now on sees the fault and launches nothing.
void Communicator::tell_that_all_have_left() noexcept {
  if (!has_left()) return;
  notices_.tell_left();
  if (closing_ && !notices_.tells_closing()) notices_.tell_closing();
}

// Waits for callers that are still inside after a fault, and see it soon; bounded, as the driver may hold one up.
void Communicator::await_callers(int64_t since_ns) const noexcept {
  constexpr timespec kNap = {0, 50'000};
  const int64_t grace = grace_ns(false);
  while (!callers_.none() && fault_.age_ns(since_ns) < grace) nanosleep(&kNap, nullptr);
}

}  // namespace gpucoll::core
