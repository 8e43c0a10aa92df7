#include "coll/call/device_hints.h"

#include <algorithm>

#include "coll/call/device_part.h"

namespace gpucoll::coll {
namespace {

// Calls with host memory alone, until the first look.
constexpr uint32_t kFirstLook[GC_FORMS] = {4, 4, 1};
constexpr uint32_t kNever = ~uint32_t{0}, kRarely = 1u << 20;
constexpr int kMisses = 4;

}  // namespace

DeviceHints::DeviceHints(gc_comm& comm, const gc_comm_description& description, BoardEntries& entries)
    : comm_(comm), description_(description), entries_(entries) {
  // One rank has nobody to look at.
  for (uint32_t form = 0; form < GC_FORMS; ++form)
    comm_.asking[form].next_look = description.size == 1 ? kNever : kFirstLook[form];
}

void DeviceHints::wish(uint32_t form, uint32_t function) noexcept {
  // Relaxed: it says nothing of anything else. One thread at a time writes it.
  uint64_t& word = entries_.own().device_hints[form];
  const uint64_t known = __atomic_load_n(&word, __ATOMIC_RELAXED), now = known | uint64_t{1} << function;
  if (now == known) return;
  __atomic_store_n(&word, now, __ATOMIC_RELAXED);
  entries_.tell({{&word, sizeof word}});
}

uint64_t DeviceHints::wishes(uint32_t form) const noexcept {
  uint64_t all = 0;
  for (int r = 0; r < description_.size; ++r) {
    if (r == description_.rank) continue;
    const gc_board_entry* const entry = entries_.find(r);
    if (entry) all |= __atomic_load_n(&entry->device_hints[form], __ATOMIC_RELAXED);
  }
  return all;
}

// Relaxed throughout: nothing else depends on it, and the thread that weighs need not be the one that looks.
void DeviceHints::look(uint32_t form, bool able) noexcept {
  comm_.asking[form].calls = 0;
  if (!able) return;
  const bool expects = form == GC_FORM_PERSISTENT && !__atomic_load_n(&doubts_[form], __ATOMIC_RELAXED);
  const uint64_t wanted = expects ? ~uint64_t{0} : wishes(form);
  __atomic_store_n(&comm_.asking[form].on_host, wanted, __ATOMIC_RELAXED);
}

void DeviceHints::weigh(uint32_t form, uint32_t function, const DevicePart& part, bool on_device) noexcept {
  gc_asking& asking = comm_.asking[form];
  if (part.has_device_memory && !on_device) wish(form, function);
  if (part.has_device_memory || !part.has_host_memory) return;
  misses_[form] = on_device ? 0 : misses_[form] + 1;
  if (on_device) __atomic_store_n(&asking.next_look, kFirstLook[form], __ATOMIC_RELAXED);
  if (misses_[form] < kMisses) return;
  misses_[form] = 0;
  __atomic_store_n(&doubts_[form], true, __ATOMIC_RELAXED);
  __atomic_store_n(&asking.on_host, uint64_t{0}, __ATOMIC_RELAXED);
  const uint32_t last = __atomic_load_n(&asking.next_look, __ATOMIC_RELAXED);
  __atomic_store_n(&asking.next_look, std::min(2 * last, kRarely), __ATOMIC_RELAXED);
}

}  // namespace gpucoll::coll
