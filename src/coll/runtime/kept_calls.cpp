#include "coll/runtime/kept_calls.h"

#include <algorithm>
#include <utility>

namespace gpucoll::coll {
namespace {

bool is_plain(const gc_buffer& buffer) { return !buffer.map && !buffer.block_bytes; }

bool is_plain(const gc_call& call) {
  return call.order == GC_ORDER_BLOCKING && !call.before && !call.combines && !call.sources && !call.recvcounts &&
         is_plain(call.send) && is_plain(call.recv);
}

// Returns whether nothing belongs to it but tasks in which other ranks take part.
bool has_tasks_alone(const DevicePart& part) {
  const core::TaskQueue& queue = part.queue;
  return part.has_device_memory && !part.has_host_memory && !queue.results_on_host && queue.before.empty() &&
         queue.after.empty() && queue.spread.empty() && queue.reductions.empty() && queue.late_reductions.empty();
}

bool are_same(const gc_buffer& a, const gc_buffer& b) {
  return a.address == b.address && a.bytes == b.bytes && a.given == b.given;
}

// REQUIRES: both are is_plain().
bool are_same(const gc_call& kept, const gc_call& call) {
  return are_same(kept.recv, call.recv) && are_same(kept.send, call.send) && kept.function == call.function &&
         kept.type == call.type && kept.op == call.op && kept.root == call.root && kept.reduces == call.reduces;
}

}  // namespace

DeviceCall* KeptCalls::find(const gc_call& call) noexcept {
  if (!entries_ || !is_plain(call)) return nullptr;
  for (Entry& entry : *entries_) {
    if (!entry.last_use || !are_same(entry.call, call)) continue;
    if (!entry.send.is_still(call.send) || !entry.recv.is_still(call.recv)) {
      entry.last_use = 0;
      return nullptr;
    }
    entry.last_use = ++now_;
    return &entry.made;
  }
  return nullptr;
}

void KeptCalls::keep(const gc_call& call, DeviceCall& made) {
  if (!made.kept || !is_plain(call) || !has_tasks_alone(made.part)) return;
  const auto send = KnownBuffer::of(call.send), recv = KnownBuffer::of(call.recv);
  if (!send || !recv) return;
  if (!entries_) entries_ = std::make_unique<std::array<Entry, kMost>>();
  Entry& entry = *std::ranges::min_element(*entries_, {}, &Entry::last_use);
  entry.last_use = ++now_;
  entry.call = call;
  entry.send = *send;
  entry.recv = *recv;
  entry.made.take_tasks(made);
}

}  // namespace gpucoll::coll
