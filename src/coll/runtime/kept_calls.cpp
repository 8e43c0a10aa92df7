#include "coll/runtime/kept_calls.h"

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

#include "base/hash.h"
#include "base/mutant.h"
#include "coll/call/call_bytes.h"

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

bool are_same(const gc_arguments& a, const gc_arguments& b) {
  return a.function == b.function && (std::ranges::equal(a.words, b.words) || gc_mutant(571));
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

// Combines twice, so that each bit of each word chooses the set.
uint64_t hash_of(const gc_arguments& arguments) noexcept {
  uint64_t sum = arguments.function;
#pragma GCC unroll 16
  for (const uint64_t word : arguments.words) sum = std::rotl(sum, 7) ^ word;
  return gc_mutant(592) ? hash_combine(0, sum) : hash_combine(0, hash_combine(sum >> 32, sum));
}

// REQUIRES: both are is_plain().
bool KeptCalls::are_same(const gc_call& kept, const gc_call& call) const {
  return kept.function == call.function && coll::are_same(kept.recv, call.recv, n_ranks_) &&
         coll::are_same(kept.send, call.send, n_ranks_) && kept.type == call.type && kept.op == call.op &&
         kept.root == call.root && kept.reduces == call.reduces &&
         (coll::are_same(kept.recvcounts, call.recvcounts, n_ranks_) || gc_mutant(485));
}

void KeptCalls::write_down(gc_call call, KeptCall* kept) const {
  const auto of = [this](gc_buffer& buffer, KeptCall::Lists* lists) {
    buffer.block_bytes = copy(buffer.block_bytes, n_ranks_, &lists->bytes);
    buffer.block_offsets = copy(buffer.block_offsets, n_ranks_, &lists->offsets);
  };
  of(call.send, &kept->sent);
  of(call.recv, &kept->received);
  call.recvcounts = copy(call.recvcounts, n_ranks_, &kept->counts);
  if (call.arguments) {
    kept->arguments = *call.arguments;
    call.arguments = &kept->arguments;
  }
  kept->call = call;
}

KeptCall* KeptCalls::if_still(KeptCall* kept) noexcept {
  if (!kept || (kept->send.is_still() && kept->recv.is_still())) return kept;
  calls_.forget(*kept);
  return nullptr;
}

KeptCall* KeptCalls::find(const gc_arguments& arguments) noexcept {
  return if_still(calls_.find(hash_of(arguments), [&](const KeptCall& kept) {
    return kept.call.arguments && coll::are_same(*kept.call.arguments, arguments);
  }));
}

KeptCall* KeptCalls::find(const gc_call& call) noexcept {
  if (call.arguments) return find(*call.arguments);
  if (!is_plain(call)) return nullptr;
  return if_still(calls_.find(hash_of(call),
                              [&](const KeptCall& kept) { return !kept.call.arguments && are_same(kept.call, call); }));
}

void KeptCalls::keep(const gc_call& call, DeviceCall& made) noexcept {
  if (!made.kept || !is_plain(call) || !has_tasks_alone(made.part)) return;
  const auto send = KnownBuffer::of(call.send, n_ranks_), recv = KnownBuffer::of(call.recv, n_ranks_);
  if (!send || !recv) return;
  KeptCall* kept = nullptr;
  try {
    kept = &calls_.make_room(call.arguments ? hash_of(*call.arguments) : hash_of(call));
    write_down(call, kept);
  } catch (const std::bad_alloc&) {
    if (kept) calls_.forget(*kept);
    return;
  }
  kept->bytes = bytes_of(call, static_cast<size_t>(n_ranks_));
  kept->send = *send;
  kept->recv = *recv;
  kept->made.take_tasks(made);
}

}  // namespace gpucoll::coll
