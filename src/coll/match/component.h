// Learns which ranks take part in the calls among neighbours, where no rank knows more than its own neighbours.
//
// Thread safety: pure functions, but for tell_neighbors(), which one caller at a time calls.
#pragma once
#include <vector>

#include "abi/abi.h"
#include "coll/match/board_entries.h"

namespace gpucoll::coll {

// The ranks that edges of a graph join to this one: itself first, each after a rank that it has an edge with. This rank
// learns of them as they come.
struct Component {
  std::vector<int> ranks;
  bool complete = false;
};

// Tells the others whom this rank has edges with, before it first publishes in GC_ORDER_NEIGHBORS, and begins its
// component. Errors: unsupported, where there are too many ranks.
Status tell_neighbors(const BoardEntries& entries, const gc_call& call, Component* component) noexcept;
// Returns the component as tell_neighbors() has begun it.
Component own_component(const BoardEntries& entries);
// Adds the neighbours of a rank that has come. REQUIRES: the rank is in the component.
void add_neighbors_of(const BoardEntries& entries, int rank, Component* component);

}  // namespace gpucoll::coll
