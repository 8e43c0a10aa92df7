#include "core/launch/graph_memory.h"

#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "base/mutant.h"

namespace gpucoll::core {
namespace {

// Memory that nobody holds any more. Never destroyed: a graph may end after the process's static objects.
struct Unused {
  std::mutex mutex;
  std::vector<GraphMemory*> list;
};
Unused& unused() {
  static Unused& all = *new Unused;
  return all;
}

void release(GraphMemory* memory) noexcept {
  if (memory->block.host) memory->device->release_host(memory->block);
  if (memory->event) memory->device->destroy_event(memory->event);
  delete memory;
}

// On whatever thread the last holder ends: only the list is touched.
void put_aside(GraphMemory* memory) noexcept {
  std::lock_guard lock(unused().mutex);
  try {
    unused().list.push_back(memory);
  } catch (...) {
    // No memory for the list: the thing is lost rather than the process.
  }
}

}  // namespace

std::shared_ptr<GraphMemory> share_with_graphs(const GraphMemory& memory) {
  return {new GraphMemory(memory), put_aside};
}

std::shared_ptr<GraphMemory> take_unused(gpu::Device& device, size_t bytes) {
  std::lock_guard lock(unused().mutex);
  std::vector<GraphMemory*>& list = unused().list;
  auto best = list.end();
  for (auto it = list.begin(); it != list.end() && !gc_mutant(460); ++it) {
    const GraphMemory& memory = **it;
    if (memory.device != &device || memory.event || memory.block.bytes < bytes) continue;
    if (best == list.end() || memory.block.bytes < (*best)->block.bytes) best = it;
  }
  if (best == list.end()) return nullptr;
  GraphMemory* const found = *best;
  list.erase(best);
  return {found, put_aside};
}

Status keep_with_graph(gpu::Stream stream, const std::shared_ptr<GraphMemory>& memory) {
  using Holder = std::shared_ptr<GraphMemory>;
  auto let_go = [](void* argument) { delete static_cast<Holder*>(argument); };
  auto holder = std::make_unique<Holder>(memory);
  GC_TRY(memory->device->keep_with_graph(stream, let_go, holder.get()));
  holder.release();  // the graph's
  return {};
}

Status GraphHold::add(gpu::Device& device, gpu::Stream stream, uint64_t capture, GraphUser* user) {
  struct Holder {
    std::shared_ptr<std::atomic<int>> count;
    uint64_t capture;
  };
  auto let_go = [](void* argument) {
    const std::unique_ptr<Holder> holder(static_cast<Holder*>(argument));
    GraphUsers::instance().forget(holder->capture);
    holder->count->fetch_sub(1, std::memory_order_release);  // partner: any()
  };
  auto holder = std::make_unique<Holder>(Holder{count_, capture});
  count_->fetch_add(1, std::memory_order_relaxed);
  if (Status status = device.keep_with_graph(stream, let_go, holder.get()); !status) {
    count_->fetch_sub(1, std::memory_order_relaxed);
    return status;
  }
  holder.release();  // the graph's
  GraphUsers::instance().add(capture, user);
  tell();
  return {};
}

void GraphHold::tell() noexcept {
  std::lock_guard lock(mutex_);
  if (held_) __atomic_store_n(held_, any() ? 1u : 0u, __ATOMIC_RELEASE);  // partner: Peers::held
}

void release_unused() noexcept {
  std::vector<GraphMemory*> list;
  {
    std::lock_guard lock(unused().mutex);
    list.swap(unused().list);
  }
  for (GraphMemory* memory : list) release(memory);
}

}  // namespace gpucoll::core
