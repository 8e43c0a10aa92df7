// A communicator as its program has it: alone on a Communicator, or one of several of the same ranks that share one,
// with its connections, launches, and faults (docs/adr/0013).
//
// Thread safety: shares of one Communicator are used as one: one caller at a time, all ranks in the same order. What
// any thread may do with a Communicator it may do with each. Ownership: the shares own their Communicator together,
// hence the shared_ptr: they go in any order, and it is retired (reclaim.h) with the last. Copies are the same share:
// a group keeps what it works on, whoever aborts it meanwhile.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>

#include "core/comm/background.h"
#include "core/comm/communicator.h"

namespace gpucoll::core {

class CommShare {
 public:
  CommShare() = default;  // none
  // Alone, at first. shares: what is split off has the same Communicator, where it has the same ranks in the same
  // order. progress: of a communicator that does not block, null for others. Those do not share.
  CommShare(std::unique_ptr<Communicator> communicator, bool shares, std::shared_ptr<Progress> progress = nullptr);

  // Null: there is none.
  Communicator* communicator() const { return state_ ? state_->communicator.get() : nullptr; }
  // Among those of the same Communicator; the same on all ranks. REQUIRES, as all that follows: there is one.
  uint64_t number() const { return state_->number; }
  bool shares() const { return state_->shares; }
  // Returns null where the communicator blocks.
  const std::shared_ptr<Progress>& progress() const { return state_->progress; }
  // Collective, as Communicator::split(). Shares if all ranks do, and want no other limits than this one has.
  // child_shares, progress: of the new one, as the constructor has them. options: of the new one, where it does not
  // share.
  Result<CommShare> split(int color, int key, bool child_shares, const CommOptions& options,
                          std::shared_ptr<Progress> progress = nullptr) const;
  // Waits for all that was launched on the Communicator; this share launches nothing more.
  Status finish();
  bool finished() const { return state_->finished.load(std::memory_order_relaxed); }
  bool operator==(const CommShare&) const = default;

 private:
  struct State {
    std::shared_ptr<Communicator> communicator;
    uint64_t number;
    bool shares;
    std::shared_ptr<Progress> progress;
    std::atomic<bool> finished{false};  // read in groups of another thread than that which aborts it
  };
  std::shared_ptr<State> state_;
};

}  // namespace gpucoll::core
