// Knows which communicators have launches in which graph, so that gpucoll can refuse to launch a graph where one of its
// communicators has failed or is gone. It knows of graphs whose capture gpucollStreamEndCapture ends; launches of other
// graphs end by the fault latch alone.
//
// Thread safety: any function from any thread.
// Ownership: none; a user outlives the graphs that it takes part in (GraphHold, graph_memory.h).
#pragma once
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "base/status.h"
#include "gpu/device.h"

namespace gpucoll::core {

class GraphUser {
 public:
  virtual ~GraphUser() = default;
  // Returns ok, or why its launches would do nothing.
  virtual Status may_launch() noexcept = 0;
};

class GraphUsers {
 public:
  static GraphUsers& instance();
  void add(uint64_t capture, GraphUser* user);
  // Notes that the capture has become this graph.
  void bind(uint64_t capture, gpu::Graph graph);
  // Forget a graph that is gone or about to go, and a capture with the graph that it became, whoever destroyed that
  // graph.
  void forget(gpu::Graph graph) noexcept;
  void forget(uint64_t capture) noexcept;
  // Returns the first answer of the graph's users that is not ok.
  Status may_launch(gpu::Graph graph);

 private:
  using Users = std::vector<GraphUser*>;
  struct Bound {
    uint64_t capture;
    Users users;
  };
  std::mutex mutex_;
  std::map<uint64_t, Users> captures_;
  std::map<gpu::Graph, Bound> graphs_;
};

}  // namespace gpucoll::core
