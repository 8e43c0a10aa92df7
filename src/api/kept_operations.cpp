#include "api/kept_operations.h"

#include <algorithm>
#include <new>

#include "base/mutant.h"

namespace gpucoll::coll {

bool KeptOperations::enqueue_again(const core::CommShare& share, const Operation& operation, Status* status) {
  if (!entries_ || (core::group_open() && !gc_mutant(398))) return false;
  for (Entry& entry : *entries_) {
    if (!entry.last_use || entry.operation != operation) continue;
    const bool are_same = (entry.send.is_same() && entry.recv.is_same()) || gc_mutant(395);
    if (are_same && core::enqueue_again(share, entry.repeat, status)) {
      entry.last_use = ++now_;
      return true;
    }
    entry.last_use = 0;  // it is kept anew, as it is now
    return false;
  }
  return false;
}

void KeptOperations::keep(const Operation& operation, bool uses_send, bool uses_recv,
                          const core::Repeat& repeat) noexcept {
  const auto platform = gpu::platform();
  if (!repeat.plan || !platform) return;
  if (!entries_) entries_.reset(new (std::nothrow) std::array<Entry, kMost>);
  if (!entries_) return;
  Entry& entry = *std::ranges::min_element(*entries_, {}, &Entry::last_use);
  entry = {++now_, operation, {}, {}, repeat};
  if (uses_recv) entry.recv = {**platform, operation.recv};
  if (uses_send && !(uses_recv && operation.send == operation.recv)) entry.send = {**platform, operation.send};
}

}  // namespace gpucoll::coll
