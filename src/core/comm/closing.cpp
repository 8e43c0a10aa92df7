#include "core/comm/closing.h"

#include <utility>

#include "base/log.h"
#include "base/mutant.h"
#include "core/comm/reclaim.h"
#include "core/connect/end_wait.h"

namespace gpucoll::core {

void Closing::add(std::unique_ptr<Communicator> communicator) {
  communicators_.emplace_back();  // may throw; no more once peers are told
  // A failure was reported by the operation that met it.
  communicator->begin_close(nullptr, gc_mutant(509) ? monotonic_ns() : since_ns_).ignore();
  communicators_.back() = std::move(communicator);
  if (gc_mutant(508)) end();
  if (gc_mutant(529)) await_ends([this] { return communicators_.back()->peers_closed(); });
}

// Looks at all each time, as the time that one is waited for begins when something of it has moved last.
void Closing::end() {
  if (communicators_.empty()) return;
  const int64_t begin = monotonic_ns();
  await_ends([this] {
    bool all = true;
    for (const auto& communicator : communicators_) all &= communicator->are_ends_taken();
    return all;
  });
  log::write(log::Level::debug,
             "this process has closed %zu communicators, and waited %lld us for the hosts of their peers",
             communicators_.size(), static_cast<long long>((monotonic_ns() - begin) / 1000));
  for (auto& communicator : communicators_) reclaim(std::move(communicator), 0);
  communicators_.clear();
}

}  // namespace gpucoll::core
