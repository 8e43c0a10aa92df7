// The watchdog's looks at a communicator: it finds faults, and tells of a communicator that does not go on.
#include <string>

#include "core/comm/communicator.h"
#include "core/peer/heart.h"

namespace gpucoll::core {

void Communicator::check() noexcept {
  if (!watchable_.load(std::memory_order_acquire)) return;
  graphs_.look(rank());
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
    if (status) {
      const uint64_t launches = launched() + words_.done();
      status = connections_->look_at_links(activity() == KernelActivity::launched, launches);
    }
    exports_->tidy();
    if (copies_) copies_->look_for_freed();
    if (user_buffers_) user_buffers_->look_for_freed();
    if (status) status = stall_.look(launched(), copies_.get());
    if (status) return;
    fault_.raise(status);
  } catch (...) {
    // No memory to look: the next round tries again.
  }
}

void Communicator::compare_calls() noexcept {
  contained([&]() -> Status {
    if (Status status = calls_.compare(); !status) fault_.raise(status);
    return {};
  }).ignore();
}

// A kernel has set the latch by itself: what it saw becomes the communicator's fault. REQUIRES: words_.has_report().
void Communicator::look_at_report() noexcept {
  const proto::FaultLatch& latch = words_->latch;
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
  if (!device_failed() || fault_.raised() || notices_.tells_closing()) return;
  contained([&]() -> Status {
    raise_fault(Status::error(Code::device,
                              "the device of rank %d has failed: nothing runs on it any more in this process (%s)",
                              peers_.number(rank()), device_state_->why().what()));
    return {};
  }).ignore();
}

}  // namespace gpucoll::core
