// The communicators of the generated test: of every kind, with what a case must know of them.
//
// Thread safety: none. Ownership: a Groups owns its communicators, but for those of MPI.
#pragma once
#include <string>
#include <vector>

#include "generated_types.h"

namespace generated {

// A neighbour as it is named in the argument lists: its rank, and which of its own lists' entries belongs to this edge.
struct Edge {
  int rank;  // or MPI_PROC_NULL
  int slot;
  int other_slot;  // what some versions of MPI take instead, where the same rank is a neighbour twice
};

// One communicator as this rank sees it. A communicator of two groups has sides 0 and 1; others are all side 0, but
// for those that MPI_Comm_split made at once, which differ in `color`.
struct Group {
  const char* name;
  MPI_Comm comm;
  int rank, size;
  bool inter = false;
  int side = 0, peers = 0;  // ranks that blocks come from and go to
  int color = 0;
  std::vector<Edge> in = {}, out = {};  // of a topology

  bool topology() const { return topological; }
  bool topological = false;
};

inline Group group_of(const char* name, MPI_Comm comm, int color = 0) {
  Group g{name, comm, 0, 1};
  MPI_Comm_rank(comm, &g.rank);
  MPI_Comm_size(comm, &g.size);
  g.peers = g.size;
  g.color = color;
  return g;
}

// ---- neighbours, from the definitions ----

// How many of the entries before `slot` name the same rank.
inline int occurrence(const std::vector<int>& ranks, int slot) {
  int n = 0;
  for (int i = 0; i < slot; i++) n += ranks[static_cast<size_t>(i)] == ranks[static_cast<size_t>(slot)];
  return n;
}
inline int slot_of(const std::vector<int>& ranks, int rank, int n) {
  for (size_t i = 0; i < ranks.size(); i++)
    if (ranks[i] == rank && n-- == 0) return static_cast<int>(i);
  return -1;
}

// Of a grid: for each dimension, the neighbour below and the one above.
inline std::vector<int> grid_neighbors(MPI_Comm comm, int dimensions, int rank) {
  std::vector<int> sizes(static_cast<size_t>(dimensions)), wraps(sizes), at(sizes), ranks;
  MPI_Cart_get(comm, dimensions, sizes.data(), wraps.data(), at.data());
  MPI_Cart_coords(comm, rank, dimensions, at.data());
  for (size_t d = 0; d < at.size(); d++)
    for (int step : {-1, 1}) {
      std::vector<int> there = at;
      there[d] += step;
      int other = MPI_PROC_NULL;
      if (wraps[d] || (there[d] >= 0 && there[d] < sizes[d])) MPI_Cart_rank(comm, there.data(), &other);
      ranks.push_back(other);
    }
  return ranks;
}

inline Group grid(const char* name, int dimensions, const int* sizes, const int* wraps) {
  MPI_Comm comm;
  MPI_Cart_create(MPI_COMM_WORLD, dimensions, sizes, wraps, 1, &comm);
  if (comm == MPI_COMM_NULL) return {name, comm, 0, 0};
  Group g = group_of(name, comm);
  g.topological = true;
  const std::vector<int> mine = grid_neighbors(comm, dimensions, g.rank);
  for (size_t i = 0; i < mine.size(); i++) {
    const int slot = static_cast<int>(i);
    if (mine[i] == MPI_PROC_NULL) {
      g.in.push_back({MPI_PROC_NULL, 0, 0});
      continue;
    }
    // What comes from below was sent upwards; or, as for any graph, the n-th message from a rank is its n-th to here.
    const std::vector<int> theirs = grid_neighbors(comm, dimensions, mine[i]);
    g.in.push_back({mine[i], slot ^ 1, slot_of(theirs, g.rank, occurrence(mine, slot))});
  }
  g.out = g.in;
  return g;
}

// Whom a rank of the graphs below sends to; some of them twice, some itself.
inline std::vector<int> targets(int rank, int size, bool symmetric) {
  const int right = (rank + 1) % size, left = (rank + size - 1) % size;
  if (symmetric)
    return size == 1 ? std::vector<int>{0} : size == 2 ? std::vector<int>{right} : std::vector<int>{right, left};
  if (rank % 3 == 2) return {};
  return {right, rank, right, (rank + 2) % size};
}

inline std::vector<int> sources(int rank, int size) {
  std::vector<int> all;
  for (int r = size - 1; r >= 0; r--)
    for (int target : targets(r, size, false))
      if (target == rank) all.push_back(r);
  return all;
}

inline Group graph() {
  std::vector<int> ends, edges;
  for (int r = 0; r < g_size; r++) {
    for (int target : targets(r, g_size, true)) edges.push_back(target);
    ends.push_back(static_cast<int>(edges.size()));
  }
  MPI_Comm comm;
  MPI_Graph_create(MPI_COMM_WORLD, g_size, ends.data(), edges.data(), 0, &comm);
  Group g = group_of("graph", comm);
  g.topological = true;
  for (int rank : targets(g.rank, g.size, true)) {
    const int slot = slot_of(targets(rank, g.size, true), g.rank, 0);
    g.in.push_back({rank, slot, slot});
  }
  g.out = g.in;
  return g;
}

inline Group distributed_graph() {
  const std::vector<int> from = sources(g_rank, g_size), to = targets(g_rank, g_size, false);
  MPI_Comm comm;
  MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, static_cast<int>(from.size()), from.data(), MPI_UNWEIGHTED,
                                 static_cast<int>(to.size()), to.data(), MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &comm);
  Group g = group_of("distributed graph", comm);
  g.topological = true;
  for (size_t i = 0; i < from.size(); i++) {
    const int slot = slot_of(targets(from[i], g_size, false), g_rank, occurrence(from, static_cast<int>(i)));
    g.in.push_back({from[i], slot, slot});
  }
  for (int rank : to) g.out.push_back({rank, 0, 0});
  return g;
}

// ---- all ----

class Groups {
 public:
  Groups() {
    all.push_back(group_of("world", MPI_COMM_WORLD));
    all.push_back(group_of("self", MPI_COMM_SELF, g_rank));
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    all.push_back(group_of("dup", comm));
    MPI_Comm_split(MPI_COMM_WORLD, g_rank % 2, -g_rank, &comm);
    all.push_back(group_of("half", comm, g_rank % 2));
    all.push_back(all_but_the_last());
    if (g_size > 1) join_halves(comm);
    const int line[2] = {g_size, 1}, wraps[2] = {0, 1}, ring = g_size, yes = 1;
    all.push_back(grid("grid", 2, line, wraps));
    all.push_back(grid("ring", 1, &ring, &yes));
    const int plane[2] = {2, g_size / 2};
    if (g_size >= 4) all.push_back(grid("plane", 2, plane, wraps));
    all.push_back(graph());
    all.push_back(distributed_graph());
  }
  Groups(const Groups&) = delete;
  ~Groups() {
    for (Group& g : all)
      if (g.comm != MPI_COMM_WORLD && g.comm != MPI_COMM_SELF && g.comm != MPI_COMM_NULL) MPI_Comm_free(&g.comm);
  }

  std::vector<Group> all;  // as many on every rank; MPI_COMM_NULL where a rank is no member

 private:
  static Group all_but_the_last() {
    MPI_Group world, most;
    MPI_Comm comm = MPI_COMM_NULL;
    const int last = g_size - 1;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_excl(world, g_size > 1 ? 1 : 0, &last, &most);
    if (g_size == 1 || g_rank != last) MPI_Comm_create_group(MPI_COMM_WORLD, most, 9, &comm);
    MPI_Group_free(&most);
    MPI_Group_free(&world);
    return comm == MPI_COMM_NULL ? Group{"all but the last", comm, 0, 0} : group_of("all but the last", comm);
  }

  void join_halves(MPI_Comm half) {
    MPI_Comm bridge, merged;
    const int other_leader = g_size - 1 - (g_size - 1 + g_rank + 1) % 2;  // keys are reversed: the highest comes first
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, other_leader, 5, &bridge);
    MPI_Intercomm_merge(bridge, g_rank % 2 == 0, &merged);
    Group g = group_of("bridge", bridge);
    g.inter = true;
    g.side = g_rank % 2;
    MPI_Comm_remote_size(bridge, &g.peers);
    all.push_back(g);
    all.push_back(group_of("merged", merged));
  }
};

}  // namespace generated
