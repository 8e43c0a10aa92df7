#include "core/tenant.h"

#include <utility>

#include "core/retired.h"

namespace gpucoll::core {
namespace {

// Waits for the peers a little before it leaves the rest to later; not where this very thread may have to destroy
// theirs.
void let_go(Communicator* communicator) {
  constexpr int64_t kPatienceMs = 20;
  std::unique_ptr<Communicator> owned(communicator);
  owned->finish(nullptr).ignore();  // whoever finished the tenants was told
  const int64_t patience_ms = owned->has_peers_in_this_process() ? 0 : kPatienceMs;
  retire(std::move(owned), patience_ms);
}

}  // namespace

Tenant::Tenant(std::unique_ptr<Communicator> communicator, bool shares)
    : communicator_(communicator.release(), let_go), shares_(shares) {}

Result<Tenant> Tenant::split(int color, int key) const {
  if (finished_) return Status::error(Code::invalid_usage, "the communicator has been finalised");
  GC_TRY_AS(auto part, communicator_->split(color, key, shares_));
  if (part.own) return Tenant(std::move(part.own), shares_);
  Tenant tenant;
  if (!part.tenant) return tenant;
  tenant.communicator_ = communicator_;
  tenant.number_ = part.tenant;
  tenant.shares_ = shares_;
  return tenant;
}

Status Tenant::finish() {
  finished_ = true;
  // The last one tells the peers; where two threads finish the last two, they learn it when it is let go.
  return communicator_.use_count() == 1 ? communicator_->finish(nullptr) : communicator_->settle(nullptr);
}

}  // namespace gpucoll::core
