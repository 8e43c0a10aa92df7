#include "coll/runtime/kept_calls.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/hash.h"
#include "base/mutant.h"

namespace gpucoll::coll {
namespace {

bool is_plain(const gc_buffer& buffer) { return !buffer.map && !buffer.block_maps; }

bool is_plain(const gc_call& call) {
  return call.order == GC_ORDER_BLOCKING && !call.before && !call.combines && !call.sources && is_plain(call.send) &&
         is_plain(call.recv);
}

// Returns whether nothing belongs to it but tasks in which other ranks take part.
bool has_tasks_alone(const DevicePart& part) {
  const core::TaskQueue& queue = part.queue;
  return part.has_device_memory && !part.has_host_memory && !queue.results_on_host && queue.before.empty() &&
         queue.after.empty() && queue.spread.empty() && queue.reductions.empty() && queue.late_reductions.empty();
}

template <class Number>
bool are_same(const Number* a, const Number* b, int n) {
  return !a == !b && (!a || std::equal(a, a + n, b) || gc_mutant(482));
}

bool are_same(const gc_buffer& a, const gc_buffer& b, int n_blocks) {
  return a.address == b.address && a.bytes == b.bytes && a.given == b.given &&
         are_same(a.block_bytes, b.block_bytes, n_blocks) && are_same(a.block_offsets, b.block_offsets, n_blocks);
}

template <class Number>
const Number* copy(const Number* list, int n, std::vector<Number>* into) {
  into->assign(list, list ? list + n : list);
  return list ? into->data() : nullptr;
}

// Calls that come in turn differ in their buffers, or in how much of them they are about.
uint64_t hash_of(const gc_call& call) {
  const auto word = [](const gc_buffer& buffer) { return reinterpret_cast<uintptr_t>(buffer.address); };
  return hash_combine(hash_combine(hash_combine(0, word(call.send)), word(call.recv)),
                      call.send.bytes + call.recv.bytes);
}

}  // namespace

// REQUIRES: both are is_plain().
bool KeptCalls::are_same(const gc_call& kept, const gc_call& call) const {
  return kept.function == call.function && coll::are_same(kept.recv, call.recv, n_ranks_) &&
         coll::are_same(kept.send, call.send, n_ranks_) && kept.type == call.type && kept.op == call.op &&
         kept.root == call.root && kept.reduces == call.reduces &&
         (coll::are_same(kept.recvcounts, call.recvcounts, n_ranks_) || gc_mutant(485));
}

void KeptCalls::write_down(gc_call call, Entry* entry) const {
  const auto of = [this](gc_buffer& buffer, BlockList* list) {
    buffer.block_bytes = copy(buffer.block_bytes, n_ranks_, &list->bytes);
    buffer.block_offsets = copy(buffer.block_offsets, n_ranks_, &list->offsets);
  };
  of(call.send, &entry->sent);
  of(call.recv, &entry->received);
  call.recvcounts = copy(call.recvcounts, n_ranks_, &entry->counts);
  entry->call = call;
}

DeviceCall* KeptCalls::find(const gc_call& call) noexcept {
  if (!is_plain(call)) return nullptr;
  Entry* const entry = entries_.find(hash_of(call), [&](const Entry& kept) { return are_same(kept.call, call); });
  if (!entry) return nullptr;
  if (entry->send.is_still() && entry->recv.is_still()) return &entry->made;
  entries_.forget(*entry);
  return nullptr;
}

void KeptCalls::keep(const gc_call& call, DeviceCall& made) noexcept {
  if (!made.kept || !is_plain(call) || !has_tasks_alone(made.part)) return;
  const auto send = KnownBuffer::of(call.send, n_ranks_), recv = KnownBuffer::of(call.recv, n_ranks_);
  if (!send || !recv) return;
  Entry* entry = nullptr;
  try {
    entry = &entries_.make_room(hash_of(call));
    write_down(call, entry);
  } catch (const std::bad_alloc&) {
    if (entry) entries_.forget(*entry);
    return;
  }
  entry->send = *send;
  entry->recv = *recv;
  entry->made.take_tasks(made);
}

}  // namespace gpucoll::coll
