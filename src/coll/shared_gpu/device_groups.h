// Puts the ranks of a communicator that use one device into a group, whose lowest rank leads it (docs/adr/0023).
//
// Thread safety: pure functions. DeviceGroups are numbered in the order of their leaders.
#pragma once
#include <string>
#include <vector>

#include "proto/format/board.h"

namespace gpucoll::coll {

struct DeviceGroups {
  std::vector<int> of;                    // by rank
  std::vector<std::vector<int>> members;  // of each group, ascending

  int size() const { return static_cast<int>(members.size()); }
  int leader_of(int rank) const { return members[static_cast<size_t>(of[static_cast<size_t>(rank)])].front(); }
  std::vector<int> leaders() const;
};

// Makes groups by the devices that the ranks' lines name.
DeviceGroups groups_of(const std::vector<gc_board_line>& lines);
// Names ranks in a sentence: "ranks 0, 2".
std::string list_of(const std::vector<int>& ranks);

}  // namespace gpucoll::coll
