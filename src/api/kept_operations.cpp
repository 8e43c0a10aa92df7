#include "api/kept_operations.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/hash.h"
#include "base/mutant.h"

namespace gpucoll::coll {
namespace {

// Operations that come in turn differ in their buffers, send other parts of them, or have another root or peer.
uint64_t hash_of(const Operation& operation) {
  const auto word = [](const void* address) { return reinterpret_cast<uintptr_t>(address); };
  const uint64_t buffers = hash_combine(hash_combine(0, word(operation.send)), word(operation.recv));
  const uint64_t counts = hash_combine(buffers, operation.send_count + operation.recv_count);
  return hash_combine(counts, static_cast<uint64_t>(operation.root));
}

// Lets the operation's lists point to copies.
void copy_lists(Operation* operation, std::vector<size_t>* numbers) {
  Lists& lists = operation->lists;
  for (const size_t* list : lists.lists)
    if (list) numbers->insert(numbers->end(), list, list + lists.length);
  const size_t* copy = numbers->data();
  for (const size_t*& list : lists.lists)
    if (list) list = std::exchange(copy, copy + lists.length);
}

}  // namespace

bool Lists::operator==(const Lists& other) const noexcept {
  if (length != other.length) return false;
  if (length == 0) return true;  // none is given
  for (size_t i = 0; i < lists.size(); ++i) {
    if (!lists[i] != !other.lists[i]) return false;
    if (lists[i] && !std::equal(lists[i], lists[i] + length, other.lists[i]) && !gc_mutant(481)) return false;
  }
  return true;
}

bool KeptOperations::enqueue_again(const core::CommShare& share, const Operation& operation, Status* status) {
  if (core::group_open() && !gc_mutant(398)) return false;
  const auto is_it = [&](const Entry& entry) { return entry.operation == operation; };
  Entry* const entry = entries_.find(hash_of(operation), is_it);
  if (!entry) return false;
  const bool are_same = (entry->send.is_same() && entry->recv.is_same()) || gc_mutant(395);
  if (are_same && core::enqueue_again(share, entry->repeat, status)) return true;
  entries_.forget(*entry);  // it is kept anew, as it is now
  return false;
}

void KeptOperations::keep(const Operation& operation, const Enqueued& enqueued) noexcept try {
  const auto& [uses_send, uses_recv, repeat] = enqueued;
  const auto platform = gpu::platform();
  if (!repeat.plan || !platform) return;
  Entry fresh = {operation, {}, {}, {}, repeat};
  copy_lists(&fresh.operation, &fresh.numbers);
  if (uses_recv) fresh.recv = {**platform, operation.recv};
  if (uses_send && !(uses_recv && operation.send == operation.recv)) fresh.send = {**platform, operation.send};
  entries_.make_room(hash_of(operation)) = std::move(fresh);
} catch (const std::bad_alloc&) {
  // It is not kept.
}

}  // namespace gpucoll::coll
