#include "core/comm/comm_share.h"

#include <utility>

#include "core/comm/reclaim.h"

namespace gpucoll::core {
namespace {

// Waits for the peers a little before it leaves the rest to later; not where this very thread may have to destroy
// theirs.
void let_go(Communicator* communicator) {
  constexpr int64_t kPatienceMs = 20;
  std::unique_ptr<Communicator> owned(communicator);
  owned->finish(nullptr).ignore();  // whoever finished the shares was told
  const int64_t patience_ms = owned->has_peers_in_this_process() ? 0 : kPatienceMs;
  reclaim(std::move(owned), patience_ms);
}

}  // namespace

CommShare::CommShare(std::unique_ptr<Communicator> communicator, bool shares, std::shared_ptr<Progress> progress)
    : state_(new State{{communicator.release(), let_go}, 0, shares && !progress, std::move(progress)}) {}

Result<CommShare> CommShare::split(int color, int key, bool child_shares, const CommOptions& options,
                                   std::shared_ptr<Progress> progress) const {
  if (finished()) return Status::error(Code::invalid_usage, "the communicator has been finalised");
  const CommOptions& own = state_->communicator->options();
  const bool shares =
      state_->shares && !progress && own.min_blocks == options.min_blocks && own.max_blocks == options.max_blocks;
  drain_reclaimed(0, nullptr);
  GC_TRY_AS(auto part, state_->communicator->split(color, key, shares, options));
  if (part.own) return CommShare(std::move(part.own), child_shares, std::move(progress));
  CommShare share;
  if (part.share_number) share.state_.reset(new State{state_->communicator, part.share_number, child_shares, nullptr});
  return share;
}

Status CommShare::finish() {
  state_->finished.store(true, std::memory_order_relaxed);
  // The last one tells the peers; where two threads finish the last two, they learn it when it is let go.
  Communicator& communicator = *state_->communicator;
  return state_->communicator.use_count() == 1 ? communicator.finish(nullptr) : communicator.settle(nullptr);
}

}  // namespace gpucoll::core
