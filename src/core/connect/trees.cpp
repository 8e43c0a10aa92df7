#include "core/connect/trees.h"

#include <algorithm>
#include <iterator>
#include <vector>

namespace gpucoll::core {
namespace {

constexpr int kNone = -1;

// A run of places, which begins at an even one, is a subtree: its root is the odd place next to the middle (or the only
// place), the runs on both sides are its children.
struct Run {
  int first, size;
  int root() const { return size == 1 ? first : first + (((size - 1) / 2) | 1); }
  Run left() const { return {first, root() - first}; }
  Run right() const { return {root() + 1, first + size - root() - 1}; }
};

int root_of(const Run& run) { return run.size > 0 ? run.root() : kNone; }

proto::TreePlace place_in_order(int n_ranks, int place) {
  Run run = {0, n_ranks};
  int parent = kNone;
  while (run.root() != place) {
    parent = run.root();
    run = place < parent ? run.left() : run.right();
  }
  const int left = root_of(run.left()), right = root_of(run.right());
  return {parent, {left != kNone ? left : right, left != kNone ? right : kNone}};
}

// Returns a place in the tree of so many; on odd channels they take each other's places.
proto::TreePlace place_of(int n, int own, int channel) {
  const int shift = channel % 2;
  proto::TreePlace place = place_in_order(n, (own + shift) % n);
  const auto back = [&](int p) { return p == kNone ? kNone : (p + n - shift) % n; };
  place.parent = back(place.parent);
  for (int32_t& child : place.child) child = back(child);
  return place;
}

// The tree inside a node whose ranks must take `outside` children of other nodes beside their own. The first ranks form
// a chain, and each has one of these children, if there are so many ranks: so they are as near to the root as can be.
// Below them is a heap.
class LocalTree {
 public:
  LocalTree(const std::vector<int>& ranks, int outside, int channel)
      : ranks_(ranks), n_(static_cast<int>(ranks.size())), outside_(outside), channel_(channel) {}

  int rank_at(int place) const { return ranks_[static_cast<size_t>((place + channel_) % n_)]; }
  int place_of(int rank) const {
    const auto at = static_cast<int>(std::find(ranks_.begin(), ranks_.end(), rank) - ranks_.begin());
    return (at + n_ - channel_ % n_) % n_;
  }
  // Returns the place that has an outside child.
  int host_of(int child) const { return std::min(child, n_ - 1); }
  // REQUIRES: place > 0.
  int parent(int place) const { return place <= outside_ ? place - 1 : outside_ + (place - outside_ - 1) / 2; }

 private:
  const std::vector<int>& ranks_;
  const int n_, outside_, channel_;
};

int count_children(const proto::TreePlace& place) {
  return static_cast<int>(
      std::count_if(std::begin(place.child), std::end(place.child), [](int c) { return c != kNone; }));
}

}  // namespace

proto::TreePlace tree_place(const Nodes& nodes, int rank, int channel) {
  if (nodes.size() == 1) return place_of(nodes.n_ranks(), rank, channel);
  const auto local_tree = [&](int node) {
    return LocalTree(nodes.ranks(node), count_children(place_of(nodes.size(), node, channel)), channel);
  };
  const int node = nodes.node_of(rank);
  const proto::TreePlace above = place_of(nodes.size(), node, channel);
  const LocalTree local = local_tree(node);
  const int own = local.place_of(rank);
  std::vector<int> children;
  for (int place = own + 1; place < static_cast<int>(nodes.ranks(node).size()); ++place)
    if (local.parent(place) == own) children.push_back(local.rank_at(place));
  for (int child = 0; child < count_children(above); ++child)
    if (local.host_of(child) == own) children.push_back(local_tree(above.child[child]).rank_at(0));
  proto::TreePlace place = {kNone, {kNone, kNone}};
  std::copy(children.begin(), children.end(), place.child);
  if (own > 0) {
    place.parent = local.rank_at(local.parent(own));
  } else if (above.parent != kNone) {
    const proto::TreePlace parents = place_of(nodes.size(), above.parent, channel);
    const LocalTree there = local_tree(above.parent);
    place.parent = there.rank_at(there.host_of(parents.child[0] == node ? 0 : 1));
  }
  return place;
}

}  // namespace gpucoll::core
