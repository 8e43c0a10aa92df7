// Carries by copy engine what of a communicator's operations goes that way: messages, and reductions of what copies
// bring.
//
// Thread safety: take(), count_messages() and carry_reductions() by one caller at a time; the rest from any thread.
// Ownership: the context outlives it. Destroy it when have_passed(), or a fault is latched, and the peers are done with
// this rank's memory.
#pragma once
#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "base/mutant.h"
#include "core/copy_engine/copy_messages.h"
#include "core/copy_engine/copy_reduction.h"
#include "core/launch/stream_ops.h"
#include "core/peer/peer_pages.h"

namespace gpucoll::core {

class CopyEngines {
 public:
  explicit CopyEngines(const CopyContext& context)
      : context_(context), pages_(context.device, context.peers), messages_(context, pages_) {}

  // Carries reductions as well from now on. landing: each rank's landing memory, as this rank's device reaches it.
  void carry_reductions(std::vector<void*> landing);
  // Returns whether a copy of a peer may come into this rank's landing memory.
  bool lands() const noexcept { return watched() != nullptr; }

  // Tells what copy engines take of a group: `ops` on its stream, null for nothing, and `steps`, one for each of its
  // launches (CopyReduction::begin). Kernels do the rest, which take() returns for as long as no other group is taken.
  struct Taken {
    const TaskQueue* rest;
    StreamOps* ops;
    std::vector<PlannedLaunch> steps;
  };
  // Takes what goes by copy engine of a group. Counts all its messages, whichever way they go.
  // REQUIRES: no stream is capturing; the links of its messages are made. Errors: invalid_usage, where another rank has
  // called something else. On failure the communicator must fail.
  Result<Taken> take(const TaskQueue& queue, const CommProperties& shape);
  // Counts the messages of a group of which copy engines take none. On failure the communicator must fail.
  Status count_messages(const TaskQueue& queue) {
    const bool counts = !(queue.sends.empty() && queue.recvs.empty());
    return counts && !gc_mutant(480) ? messages_.count_messages(queue) : Status();
  }

  // Return how many groups have begun to be put on their streams, and how many have passed their ends, in all.
  uint64_t groups_begun() const noexcept;
  uint64_t groups_passed() const noexcept;
  // Returns whether the streams of all groups that have been put have passed their ends.
  bool have_passed() const noexcept {
    const CopyReduction* const reduction = watched();
    return messages_.passed() >= messages_.groups() && (!reduction || reduction->passed() >= reduction->groups());
  }
  // Returns whether part of a group's reductions has been put, but not their end.
  bool is_putting_reductions() const noexcept { return watched() && watched()->putting(); }
  // Returns what is waited for, for reports; "" for nothing.
  std::string waiting_for();

  // The watchdog calls these. tell() tells the peers whether this rank can start copies. look_for_freed() looks for
  // memory of the peers that is gone. give_up(), again and again after a fault, lets the streams go on that wait for
  // copies.
  void tell() noexcept { messages_.tell_if_kept_out(); }
  void look_for_freed() noexcept { messages_.look_for_freed(); }
  void give_up() noexcept;

 private:
  CopyReduction* watched() const noexcept { return watched_.load(std::memory_order_acquire); }

  const CopyContext context_;
  PeerPages pages_;
  CopyMessages messages_;
  std::optional<CopyReduction> reduction_;
  std::atomic<CopyReduction*> watched_{nullptr};  // reduction_, for other threads
  // These belong to the group that was taken last.
  TaskQueue rest_;
  StreamOpsList ops_;
};

}  // namespace gpucoll::core
