#include "core/connect/trees.h"

#include <algorithm>

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

}  // namespace

proto::TreePlace tree_place(int n_ranks, int rank, int channel) {
  const int shift = channel % 2;
  proto::TreePlace place = place_in_order(n_ranks, (rank + shift) % n_ranks);
  const auto rank_at = [&](int p) { return p == kNone ? kNone : (p + n_ranks - shift) % n_ranks; };
  place.parent = rank_at(place.parent);
  for (int32_t& child : place.child) child = rank_at(child);
  return place;
}

std::vector<int> tree_neighbours(int n_ranks, int rank, int n_channels) {
  std::vector<int> ranks;
  for (int c = 0; c < std::min(n_channels, 2); ++c) {
    const proto::TreePlace place = tree_place(n_ranks, rank, c);
    for (int other : {place.parent, place.child[0], place.child[1]})
      if (other != kNone) ranks.push_back(other);
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

}  // namespace gpucoll::core
