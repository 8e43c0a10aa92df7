// What captured launches need for as long as their graph lives: host memory for work items, and the event that orders
// launches. The last holder may be a graph, whose end is told by a callback that must not call the device runtime; so
// letting go only puts things on a list of the process, from which release_unused() frees them.
//
// Thread safety: any thread. Ownership: owns what it holds; the device lives until the process ends.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "core/graph_users.h"
#include "gpu/device.h"

namespace gpucoll::core {

struct GraphMemory {
  gpu::Device* device;
  gpu::HostBlock block;        // may be empty
  gpu::Event event = nullptr;  // may be null
};

// How many graphs hold launches of a communicator, whose memory must stay as long. Its peers are told, on this rank's
// control page: they keep theirs.
class GraphHold {
 public:
  GraphHold() : count_(std::make_shared<std::atomic<int>>(0)) {}
  void attach(uint32_t* held) { held_ = held; }
  // Lets the graph that `stream` is being captured into count, until it is gone. capture: its number.
  Status add(gpu::Device& device, gpu::Stream stream, uint64_t capture, GraphUser* user);
  bool any() const noexcept { return count_->load(std::memory_order_acquire) > 0; }
  // Now and then, as graphs end on any thread.
  void tell() noexcept;

 private:
  const std::shared_ptr<std::atomic<int>> count_;  // by the graphs, too
  std::mutex mutex_;                               // two who tell must not tell in the wrong order
  uint32_t* held_ = nullptr;
};

// Shared, since graph and communicator may end in either order. On failure the thing is released at once.
std::shared_ptr<GraphMemory> share_with_graphs(const GraphMemory& memory);
// Lets the graph that `stream` is being captured into hold it, too.
Status keep_with_graph(gpu::Stream stream, const std::shared_ptr<GraphMemory>& memory);
// Whether any graph of the process holds some: nobody knows when it runs.
bool any_graph() noexcept;
// Frees what nobody holds any more.
void release_unused() noexcept;

}  // namespace gpucoll::core
