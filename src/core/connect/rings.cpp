#include "core/connect/rings.h"

#include <algorithm>

#include "base/mutant.h"

namespace gpucoll::core {

// Odd nodes are passed backwards: so the ring enters them by the place at which it has left an even one.
std::vector<int> ring_ranks(const Nodes& nodes, int channel) {
  std::vector<int> order;
  if (gc_mutant(332)) {
    for (int rank = 0; rank < nodes.n_ranks(); ++rank) order.push_back(rank);
    return order;
  }
  for (int node = 0; node < nodes.size(); ++node) {
    const std::vector<int>& ranks = nodes.ranks(node);
    const auto n = static_cast<int>(ranks.size());
    const int first = nodes.size() > 1 && !gc_mutant(331) ? channel % n : 0;
    for (int i = 0; i < n; ++i) {
      const int place = node % 2 == 0 ? first + i : first + n - 1 - i;
      order.push_back(ranks[static_cast<size_t>(place % n)]);
    }
  }
  return order;
}

RingPlace ring_place(const Nodes& nodes, int rank, int channel) {
  const std::vector<int> order = ring_ranks(nodes, channel);
  const auto own = std::find(order.begin(), order.end(), rank);
  const auto next = own + 1 == order.end() ? order.begin() : own + 1;
  const auto prev = (own == order.begin() ? order.end() : own) - 1;
  return {static_cast<int>(own - order.begin()), *next, *prev};
}

}  // namespace gpucoll::core
