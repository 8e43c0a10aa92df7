#include "coll/shared_gpu/teams.h"

#include <algorithm>
#include <cstring>

namespace gpucoll::coll {

std::vector<int> Teams::leaders() const {
  std::vector<int> all;
  for (const std::vector<int>& team : members) all.push_back(team.front());
  return all;
}

Teams teams_of(const std::vector<gc_board_line>& lines) {
  Teams teams;
  for (size_t r = 0; r < lines.size(); ++r) {
    const auto same_device = [&](const std::vector<int>& team) {
      const gc_board_line& first = lines[static_cast<size_t>(team.front())];
      return !std::memcmp(first.device, lines[r].device, sizeof first.device);
    };
    auto team = std::find_if(teams.members.begin(), teams.members.end(), same_device);
    if (team == teams.members.end()) team = teams.members.emplace(team);
    team->push_back(static_cast<int>(r));
    teams.of.push_back(static_cast<int>(team - teams.members.begin()));
  }
  return teams;
}

std::string list_of(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) text += (i ? ", " : "") + std::to_string(ranks[i]);
  return text;
}

}  // namespace gpucoll::coll
