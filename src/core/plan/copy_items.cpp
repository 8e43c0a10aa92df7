#include "core/plan/copy_items.h"

#include <algorithm>
#include <bit>

#include "base/mutant.h"

namespace gpucoll::core {
namespace {

constexpr size_t kPack = sizeof(proto::Pack);

// From so many bytes on it pays to copy the ends apart, and what lies between in the widest units that both sides
// allow.
constexpr size_t kWorthUnits = 4096;

proto::PackItem copy_item(uint8_t* to, uint8_t* from, uint64_t bytes) {
  constexpr int kWidest = std::countr_zero(kPack);
  proto::PackItem item = {};
  item.memory = from;
  item.packed = to;
  item.bytes = item.element_bytes = item.run_bytes = bytes;
  for (proto::PackLevel& level : item.level) level = {1, 0};
  const uint64_t bits = bytes | reinterpret_cast<uintptr_t>(from) | reinterpret_cast<uintptr_t>(to);
  item.unit = static_cast<uint8_t>(std::min(std::countr_zero(bits), kWidest));
  item.unpacks = proto::kPacks;
  return item;
}

size_t misalignment(const void* address) { return reinterpret_cast<uintptr_t>(address) % kPack; }

// Calls f(task, offset) for each all-to-all in place. Its blocks are put aside at the offset: as far from a whole pack
// as they lie, so that whole packs can be copied. Returns the bytes that all of them need.
template <class Queue, class F>
size_t for_each_in_place(Queue& queue, int n_ranks, const F& f) {
  size_t end = 0;
  for (auto& task : queue.collectives) {
    if (task.function != proto::Function::all_to_all || task.send != task.recv || n_ranks == 1) continue;
    const size_t bytes = task.count * task.element_bytes * static_cast<size_t>(n_ranks);
    if (bytes == 0) continue;
    const size_t first = end + misalignment(task.send);
    f(task, gc_mutant(220) ? misalignment(task.send) : first);
    end = (first + bytes + kPack - 1) / kPack * kPack;
  }
  return end;
}

}  // namespace

void append_copy(std::vector<proto::PackItem>* items, void* to, const void* from, size_t bytes) {
  auto* const source = static_cast<uint8_t*>(const_cast<void*>(from));
  auto* const target = static_cast<uint8_t*>(to);
  const auto add = [&](size_t at, size_t n) {
    if (n > 0) items->push_back(copy_item(target + at, source + at, n));
  };
  size_t head = 0, body = 0;
  if (bytes >= kWorthUnits) {
    const auto differ = reinterpret_cast<uintptr_t>(source) ^ reinterpret_cast<uintptr_t>(target);
    const size_t unit = size_t{1} << std::countr_zero(differ | kPack);
    head = -reinterpret_cast<uintptr_t>(target) & (unit - 1);
    body = (bytes - head) / unit * unit;
  }
  add(0, head);
  add(head, body);
  add(head + body, bytes - head - body);
}

size_t bytes_aside(const TaskQueue& queue, int n_ranks) {
  return for_each_in_place(queue, n_ranks, [](const CollectiveTask&, size_t) {});
}

void put_aside(TaskQueue* queue, int n_ranks, uint8_t* memory, const gpu::Kernel* packing) {
  for_each_in_place(*queue, n_ranks, [&](CollectiveTask& task, size_t first) {
    append_copy(&queue->before, memory + first, task.send,
                task.count * task.element_bytes * static_cast<size_t>(n_ranks));
    task.send = memory + first;
    queue->packing = packing;
  });
}

}  // namespace gpucoll::core
