// Holds what captured launches need for as long as their graph lives: host memory for work items, and the event that
// orders launches. The last holder may be a graph, and the callback that tells of its end must not call the device
// runtime. So letting go only puts the memory on a list of the process. From there a later capture takes it, or
// release_unused() frees it.
//
// Thread safety: any thread. Ownership: owns what it holds; the device lives until the process ends.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "base/mutant.h"
#include "core/launch/graph_users.h"
#include "gpu/device.h"

namespace gpucoll::core {

struct GraphMemory {
  gpu::Device* device;
  gpu::HostBlock block;        // may be empty
  gpu::Event event = nullptr;  // may be null
};

// Counts the graphs that hold launches of a communicator. The communicator's memory must stay as long as there are any.
// Its control page tells the peers, which keep their memory, too.
class GraphHold {
 public:
  GraphHold() : count_(std::make_shared<std::atomic<int>>(0)) {}
  void attach(uint32_t* held) { held_ = held; }
  // Counts the graph that `stream` is being captured into, until it is gone. capture: its number.
  Status add(gpu::Device& device, gpu::Stream stream, uint64_t capture, GraphUser* user);
  bool any() const noexcept { return count_->load(std::memory_order_acquire) > 0; }
  // Tells that launches of these graphs wait for nobody from now on: the latch is set.
  void end() noexcept { ended_.store(true, std::memory_order_relaxed); }
  // Returns whether a graph may begin, and wait for peers.
  bool may_begin() const noexcept { return any() && (!ended_.load(std::memory_order_relaxed) || gc_mutant(461)); }
  // Tells the peers of the count. Called now and then, as graphs end on any thread.
  void tell() noexcept;

 private:
  const std::shared_ptr<std::atomic<int>> count_;  // shared with the graphs
  std::atomic<bool> ended_{false};
  std::mutex mutex_;  // so that two callers of tell() cannot write their counts in the wrong order
  uint32_t* held_ = nullptr;
};

// Returns a holder to share, since graph and communicator may end in either order. On failure the memory is released at
// once.
std::shared_ptr<GraphMemory> share_with_graphs(const GraphMemory& memory);
// Returns host memory of at least so many bytes that nobody holds any more; null where there is none.
std::shared_ptr<GraphMemory> take_unused(gpu::Device& device, size_t bytes);
// Lets the graph that `stream` is being captured into hold the memory, too.
Status keep_with_graph(gpu::Stream stream, const std::shared_ptr<GraphMemory>& memory);
// Frees memory that nobody holds any more.
void release_unused() noexcept;

}  // namespace gpucoll::core
