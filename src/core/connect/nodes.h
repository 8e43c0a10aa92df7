// Which ranks of a communicator share a node.
//
// Thread safety: constant once it is made.
#pragma once
#include <cstddef>
#include <map>
#include <vector>

namespace gpucoll::core {

class Nodes {
 public:
  // node_of: for each rank, a number that ranks of one node have in common. Nodes are put in the order of their lowest
  // ranks.
  explicit Nodes(const std::vector<int>& node_of) {
    std::map<int, int> places;
    for (const int number : node_of) {
      const int node = places.emplace(number, static_cast<int>(places.size())).first->second;
      if (node == size()) ranks_.emplace_back();
      node_of_.push_back(node);
      ranks_[static_cast<size_t>(node)].push_back(static_cast<int>(node_of_.size()) - 1);
    }
  }
  static Nodes one(int n_ranks) { return Nodes(std::vector<int>(static_cast<size_t>(n_ranks), 0)); }

  int n_ranks() const { return static_cast<int>(node_of_.size()); }
  int size() const { return static_cast<int>(ranks_.size()); }
  int node_of(int rank) const { return node_of_[static_cast<size_t>(rank)]; }
  // Returns the ranks of a node in ascending order.
  const std::vector<int>& ranks(int node) const { return ranks_[static_cast<size_t>(node)]; }
  // Returns whether there are several nodes, of which some have several ranks.
  bool some_have_several() const { return size() > 1 && size() < n_ranks(); }
  // Returns whether rings differ from channel to channel (rings.h), and with them the order of reductions.
  bool rings_differ() const { return some_have_several(); }

 private:
  std::vector<int> node_of_;
  std::vector<std::vector<int>> ranks_;
};

}  // namespace gpucoll::core
