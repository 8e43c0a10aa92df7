#include "coll/match/component.h"

#include <algorithm>
#include <cstring>

#include "base/observe/causes.h"

namespace gpucoll::coll {

Status tell_neighbors(const BoardEntries& entries, const gc_call& call, Component* component) noexcept {
  if (entries.description().size > GC_BOARD_NEIGHBORS)
    return Status::error(Code::unsupported, "%d ranks, of which %d could", entries.description().size,
                         int{GC_BOARD_NEIGHBORS})
        .because(Cause::many_neighbors);
  uint64_t words[GC_BOARD_NEIGHBORS / 64] = {};
  const auto add = [&](int rank) { words[rank / 64] |= uint64_t{1} << rank % 64; };
  std::for_each(call.sources, call.sources + call.n_sources, add);
  std::for_each(call.destinations, call.destinations + call.n_destinations, add);
  std::memcpy(entries.own().neighbors, words, sizeof words);  // the line's arrival releases it
  entries.tell({{entries.own().neighbors, sizeof entries.own().neighbors}});
  *component = own_component(entries);
  return {};
}

Component own_component(const BoardEntries& entries) {
  Component component = {{entries.description().rank}};
  add_neighbors_of(entries, entries.description().rank, &component);
  return component;
}

void add_neighbors_of(const BoardEntries& entries, int rank, Component* component) {
  std::vector<int>& ranks = component->ranks;
  for (int r = 0; r < entries.description().size; ++r) {
    const bool joined = entries.of(rank).neighbors[r / 64] >> r % 64 & 1;
    if (joined && std::find(ranks.begin(), ranks.end(), r) == ranks.end()) ranks.push_back(r);
  }
}

}  // namespace gpucoll::coll
