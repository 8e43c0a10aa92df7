// A communicator as its program has it: alone on a Communicator, or one of several of the same ranks that share one,
// with its connections, launches, and faults (docs/adr/0012).
//
// Thread safety: tenants of one Communicator are used as one: one caller at a time, all ranks in the same order. What
// any thread may do with a Communicator it may do with each. Ownership: the tenants own their Communicator together,
// hence the shared_ptr: they go in any order, and it is retired (retired.h) with the last.
#pragma once
#include <cstdint>
#include <memory>

#include "core/communicator.h"

namespace gpucoll::core {

class Tenant {
 public:
  Tenant() = default;  // none
  // Alone, at first. shares: what is split off has the same Communicator, where it has the same ranks in the same
  // order.
  Tenant(std::unique_ptr<Communicator> communicator, bool shares);

  // Null: there is none.
  Communicator* communicator() const { return communicator_.get(); }
  // Among those of the same Communicator; the same on all ranks.
  uint64_t number() const { return number_; }
  // Collective, as Communicator::split(). Shares if all ranks do.
  Result<Tenant> split(int color, int key) const;
  // Waits for all that was launched on the Communicator; this tenant launches nothing more.
  Status finish();
  bool finished() const { return finished_; }

 private:
  std::shared_ptr<Communicator> communicator_;
  uint64_t number_ = 0;
  bool shares_ = false, finished_ = false;
};

}  // namespace gpucoll::core
