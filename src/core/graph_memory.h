// What captured launches need for as long as their graph lives: host memory for work items, and the event that orders
// launches. The last holder may be a graph, whose end is told by a callback that must not call the device runtime; so
// letting go only puts things on a list of the process, from which release_unused() frees them.
//
// Thread safety: any thread. Ownership: owns what it holds; the device lives until the process ends.
#pragma once
#include <memory>

#include "gpu/device.h"

namespace gpucoll::core {

struct GraphMemory {
  gpu::Device* device;
  gpu::HostBlock block;        // may be empty
  gpu::Event event = nullptr;  // may be null
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
