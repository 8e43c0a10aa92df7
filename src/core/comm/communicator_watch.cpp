// The watchdog's looks at a communicator: it finds faults, and tells of a communicator that does not go on.
#include <chrono>
#include <string>
#include <utility>

#include "base/log.h"
#include "base/mutant.h"
#include "base/params.h"
#include "core/comm/communicator.h"
#include "core/peer/heart.h"

namespace gpucoll::core {

void Communicator::check() noexcept {
  if (!watchable_.load(std::memory_order_acquire)) return;
  look_at_graphs();
  Heart::show(&peers_.own_page().pulse);
  peers_.publish();
  look_at_device();
  if (copies_) copies_->tell();
  if (fault().raised()) {
    if (copies_) copies_->give_up();
    return tell_that_all_have_left();
  }
  compare_calls();
  if (fault_.raised()) return;
  try {
    Status status = peers_.check();
    if (status) status = look_at_links();
    exports_->tidy();
    if (copies_) copies_->look_for_freed();
    if (user_buffers_) user_buffers_->look_for_freed();
    if (status) return look_for_timeout();
    fault_.raise(status);
  } catch (...) {
    // No memory to look: the next round tries again.
  }
}

// By the watchdog: tells the peers, and the program where it has launched a graph that it should not.
void Communicator::look_at_graphs() noexcept {
  hold_.tell();
  const uint64_t begun = begun_in_graphs();
  __atomic_store_n(&peers_.own_page().begun, begun, __ATOMIC_RELAXED);  // for reports
  if (!closing_ || begun == begun_at_end_ || std::exchange(late_graph_told_, true)) return;
  log::write(log::Level::error,
             "rank %d has launched a graph with operations of a communicator that it has destroyed or aborted: they "
             "moved nothing; launch graphs only while their communicators are there",
             rank());
}

// By the watchdog.
Status Communicator::look_at_links() {
  links_->expect_ends();
  bool certain = true;
  Status broken = links_->check(activity() == KernelActivity::launched, &certain);
  if (broken) {
    link_breaks_.none();
    return broken;
  }
  const uint64_t launches = launched() + __atomic_load_n(&words()->done, __ATOMIC_RELAXED);
  return link_breaks_.counts(certain, launches, RunningClock::now()) ? std::move(broken) : Status();
}

void Communicator::compare_calls() noexcept {
  contained([&]() -> Status {
    if (Status status = calls_.compare(); !status) fault_.raise(status);
    return {};
  }).ignore();
}

// A kernel has set the latch by itself: what it saw becomes the communicator's fault. REQUIRES: has_report().
void Communicator::look_at_report() noexcept {
  const proto::FaultLatch& latch = words()->latch;
  const bool of_message = __atomic_load_n(&latch.kind, __ATOMIC_RELAXED) == proto::kFaultSizes;
  const char* const sentence = of_message ? "rank %d sends %llu bytes to rank %d, which receives %llu%s"
                               : latch.sent_bytes == latch.expected_bytes
                                   ? "rank %d reduces %llu elements by another call, datatype or root than rank %d its "
                                     "%llu%s"
                                   : "rank %d reduces %llu elements, rank %d %llu%s";
  const char* const advice = of_message ? ""
                                        : ": all ranks must make the same collective calls in the same order, with the "
                                          "same count, datatype, op and root";
  if (!of_message) compare_calls();  // which knows more
  if (fault_.raised()) return;
  try {
    const Code code = of_message ? wrong_length(latch.sent_bytes, latch.expected_bytes) : Code::invalid_usage;
    fault_.raise(Status::error(code, sentence, peers_.number(latch.peer),
                               static_cast<unsigned long long>(latch.sent_bytes), peers_.number(rank()),
                               static_cast<unsigned long long>(latch.expected_bytes), advice));
  } catch (...) {
    // No memory for the sentence: the next look tries again.
  }
}

// A device that has failed runs nothing, and tells nothing. Peers need nothing any more of who has closed.
void Communicator::look_at_device() noexcept {
  if (!device_failed() || fault_.raised() || tells_closing()) return;
  contained([&]() -> Status {
    raise_fault(Status::error(Code::device,
                              "the device of rank %d has failed: nothing runs on it any more in this process (%s)",
                              peers_.number(rank()), device_state_->why().what()));
    return {};
  }).ignore();
}

void Communicator::look_for_timeout() noexcept {
  const uint64_t copies = copies_ ? copies_->groups_begun() : 0, copied = copies_ ? copies_->groups_passed() : 0;
  const uint64_t run = __atomic_load_n(&words()->done, __ATOMIC_RELAXED), in_graphs = ended_in_graphs();
  const uint32_t running = gc_mutant(142) != 0 ? 0 : running_in_graphs();
  const uint64_t done = run + copied + in_graphs, launched = this->launched() + copies + in_graphs + running;
  if (!stall_.goes_on(done, launched)) return;
  const long long waited = stall_.seconds();
  const auto is_over = [&](int64_t seconds) { return seconds && waited >= seconds; };
  const bool reports = !stall_.is_told() && is_over(params().report_after), ends = is_over(peers_.timeout());
  if (!reports && !ends) return;
  const std::string others = running != 0 ? waiting_in_graphs() : waiting_for(run + 1);
  stall_.tell();
  // Where nobody is missing, a stream may have other work first; but a rank may also have stopped, or its device hang.
  if (ends && !(others.empty() && gc_mutant(422))) return fault_.raise(timed_out(stall_.began(), waited, others));
  if (!reports || others.empty()) return;
  log::write(log::Level::warn, "rank %d has waited %lld s (parameter report_after) %s", peers_.number(rank()), waited,
             others.c_str());
}

Status Communicator::timed_out(std::chrono::steady_clock::time_point since, long long waited_s,
                               const std::string& others) const {
  GC_TRY(peers_.stopped(since, waited_s));
  constexpr char kSentence[] = "rank %d has waited %lld s (parameter timeout) %s";
  const int self = peers_.number(rank());
  if (!others.empty()) return Status::error(Code::timed_out, kSentence, self, waited_s, others.c_str()).blaming();
  return Status::error(Code::timed_out, kSentence, self, waited_s,
                       "for all ranks, which have come as far: their calls may differ in count, datatype, op or root");
}

// On others, as far as it is known.
std::string Communicator::waiting_for(uint64_t launch) const {
  if (const std::string message = copies_ ? copies_->waiting_for() : ""; !message.empty()) return "for " + message;
  const std::string missing = peers_.missing(launch);
  if (missing.empty()) return "";
  return "in its launch " + std::to_string(launch) + " of this communicator; fewer launches have been made by " +
         missing;
}

std::string Communicator::waiting_in_graphs() const {
  const uint64_t begun = begun_in_graphs();
  const std::string missing = peers_.missing_in_graphs(begun);
  if (missing.empty()) return "";
  return "in launch " + std::to_string(begun) + " of the graphs of this communicator; fewer have been begun by " +
         missing;
}

}  // namespace gpucoll::core
