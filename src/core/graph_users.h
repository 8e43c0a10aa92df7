// Which communicators have launches in which graph, so that launching one of these can be refused where a communicator
// has failed or is gone. Known of graphs whose capture is ended here (gpucollStreamEndCapture); launches of others end
// by the fault latch alone.
//
// Thread safety: any function from any thread. Ownership: none; a user outlives the graphs that it takes part in
// (GraphHold, graph_memory.h).
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
  // Why its launches would do nothing; ok while they would.
  virtual Status may_launch() noexcept = 0;
};

class GraphUsers {
 public:
  static GraphUsers& instance();
  void add(uint64_t capture, GraphUser* user);
  // The capture has become this graph.
  void bind(uint64_t capture, gpu::Graph graph);
  // The graph is gone, or is about to be; or the capture, and what it became, whoever destroyed that.
  void forget(gpu::Graph graph) noexcept;
  void forget(uint64_t capture) noexcept;
  // The first answer of the graph's users that is not ok.
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
