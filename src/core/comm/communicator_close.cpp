// How a communicator ends: it waits for what it has launched, tells the peers, and knows when they need it no more.
#include <algorithm>
#include <ctime>

#include "base/monotonic.h"
#include "base/mutant.h"
#include "core/comm/communicator.h"
#include "core/connect/end_wait.h"

namespace gpucoll::core {

// Returns for how long a fault is known that all who must leave know, from since_ns on. REQUIRES: a fault.
int64_t Communicator::since_fault_ns(int64_t since_ns) const noexcept {
  return monotonic_ns() - std::max(since_ns, fault_.raised_ns());
}

Status Communicator::settle(void (*idle)(), int64_t since_ns) {
  await(launched(), idle, false, since_ns).ignore();
  await_calls(idle, gc_mutant(623) ? since_ns : monotonic_ns());
  if (gc_mutant(145) == 0) compare_calls();
  Status status = gc_mutant(141) != 0 ? fault().status() : await_graphs(idle, since_ns);
  if (!status && user_buffers_ && user_buffers_->has_granted()) await_peers(since_ns);
  return status;
}

// A rank whose call ends with the data of a peer that has made another one must learn of it before its program goes.
// The peer's watchdog tells of its calls, and a peer that settles as well tells at once.
void Communicator::await_calls(void (*idle)(), int64_t since_ns) noexcept {
  constexpr int64_t kPatienceNs = 500'000'000;  // some looks of a watchdog
  constexpr timespec kNap = {0, 50'000};
  if (!peers_.on_several_nodes() || gc_mutant(615)) return;
  peers_.publish();
  while (!calls_.have_come() && !fault().raised() && monotonic_ns() - since_ns < kPatienceNs) {
    if (idle) idle();
    nanosleep(&kNap, nullptr);
  }
}

Status Communicator::settle(void (*idle)()) { return settle(idle, monotonic_ns()); }

Status Communicator::begin_close(void (*idle)(), int64_t since_ns) {
  if (closing_) return fault().status();
  const uint64_t before = launched();
  Status status = settle(idle, since_ns);
  // Another thread may have been about to launch when the fault was raised.
  if (fault().raised() && !gc_mutant(425)) {
    await_users(since_ns);
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
    if (failed && since_fault_ns(since_ns) > kGraceNs) break;
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
  if (orderly) fault_.close();                  // before the others can fail of it
  if (orderly || has_left()) tell_closing();    // else the watchdog does, when they have
  if (orderly) connections_->links().finish();  // peers that rest receive once they know
}

void Communicator::tell_closing() noexcept {
  // Release: all that our kernels wrote into peers' memory has been written. Partner: Peers::closing.
  __atomic_store_n(&peers_.own_page().closing, 1u, __ATOMIC_RELEASE);
  peers_.publish();
}

bool Communicator::tells_closing() const noexcept {
  return __atomic_load_n(&peers_.own_page().closing, __ATOMIC_RELAXED) != 0;
}

bool Communicator::peers_closed() const noexcept { return are_peers_done(true); }
bool Communicator::peers_rest() const noexcept { return are_peers_done(false); }

bool Communicator::are_peers_done(bool with_graphs) const noexcept {
  // After a fault, copies into landing memory still come until they have left. Kernels of this process, too, and those
  // of graphs may be launched again: they reach this rank's memory at its own address.
  const bool lands = copies_ && copies_->lands();
  for (int r = 0; r < size(); ++r) {
    if (!connections_->reach(r) || (!with_graphs && fault_.raised() && peers_.silent(r))) continue;
    const bool held = peers_.held(r);
    const bool until_left = lands || held || peers_.in_this_process(r);
    if (!(until_left ? peers_.left(r) : peers_.gone(r)) || (held && with_graphs)) return false;
  }
  return true;
}

// After a fault: peers whose kernels have not left yet may still store into this rank's buffers, which its program may
// free next. Each learns of the fault from its watchdog, its kernels leave when they next wait, and its watchdog tells.
void Communicator::await_peers(int64_t since_ns) const noexcept {
  constexpr int64_t kPatienceNs = 2'000'000'000;
  constexpr timespec kNap = {0, 1'000'000};
  const auto all_left = [this] {
    for (int r = 0; r < size(); ++r)
      if (connections_->reach(r) && !peers_.left(r) && !peers_.silent(r)) return false;
    return true;
  };
  while (!all_left() && since_fault_ns(since_ns) < kPatienceNs) nanosleep(&kNap, nullptr);
}

bool Communicator::has_left() const noexcept {
  return unused() && !(copies_ && copies_->is_putting_reductions()) && ended();
}

// A caller that comes in from now on sees the fault and launches nothing.
void Communicator::tell_that_all_have_left() noexcept {
  if (!has_left()) return;
  __atomic_store_n(&peers_.own_page().left, 1u, __ATOMIC_RELEASE);  // partner: Peers::left
  if (closing_ && !tells_closing()) tell_closing();
}

// Waits for callers that are still inside after a fault, and see it soon; bounded, as the driver may hold one up.
void Communicator::await_users(int64_t since_ns) const noexcept {
  constexpr timespec kNap = {0, 50'000};
  const int64_t grace = grace_ns(false);
  while (users_.load(std::memory_order_acquire) != 0 && since_fault_ns(since_ns) < grace) nanosleep(&kNap, nullptr);
}

}  // namespace gpucoll::core
