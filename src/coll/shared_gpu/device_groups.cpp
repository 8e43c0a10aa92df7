#include "coll/shared_gpu/device_groups.h"

#include <algorithm>
#include <cstring>

namespace gpucoll::coll {

std::vector<int> DeviceGroups::leaders() const {
  std::vector<int> all;
  for (const std::vector<int>& group : members) all.push_back(group.front());
  return all;
}

DeviceGroups groups_of(const std::vector<gc_board_line>& lines) {
  DeviceGroups groups;
  for (size_t r = 0; r < lines.size(); ++r) {
    const auto same_device = [&](const std::vector<int>& group) {
      const gc_board_line& first = lines[static_cast<size_t>(group.front())];
      return !std::memcmp(first.device, lines[r].device, sizeof first.device);
    };
    auto group = std::find_if(groups.members.begin(), groups.members.end(), same_device);
    if (group == groups.members.end()) group = groups.members.emplace(group);
    group->push_back(static_cast<int>(r));
    groups.of.push_back(static_cast<int>(group - groups.members.begin()));
  }
  return groups;
}

std::string list_of(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) text += (i ? ", " : "") + std::to_string(ranks[i]);
  return text;
}

}  // namespace gpucoll::coll
