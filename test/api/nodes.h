// Nodes that this machine plays for ranks that are processes.
#pragma once
#include <cstdlib>
#include <cstring>
#include <string>

namespace gpucoll_test {

// Before anything of gpucoll is used in the process of a rank: spreads the ranks over nodes that this machine plays,
// and that reach each other by sockets alone. GC_TEST_NODES is how many nodes there are, which the ranks have in turn,
// or has a letter for each rank, of its node.
inline void choose_node(int rank) {
  const char* const nodes = std::getenv("GC_TEST_NODES");
  if (!nodes || !*nodes) return;
  const int n = std::atoi(nodes);
  const std::string node =
      n > 0 ? "node" + std::to_string(rank % n) : std::string(1, nodes[static_cast<size_t>(rank) % std::strlen(nodes)]);
  setenv("GPUCOLL_HOST_ID", node.c_str(), 1);
}

}  // namespace gpucoll_test
