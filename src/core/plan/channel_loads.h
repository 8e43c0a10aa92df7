// Chooses the channels of a plan that an operation takes.
//
// Thread safety: none, the planner's own.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>

#include "proto/format/plan.h"

namespace gpucoll::core {

// Counts the work of each channel of one plan. A collective that does not need all channels gets those with the least
// work, so that small collectives run side by side. All ranks choose alike, since only facts that are equal on all
// ranks enter here.
class Loads {
 public:
  explicit Loads(int n_channels) : n_channels_(n_channels) {}
  // Returns the first of the n neighbouring channels that have the least work, and adds `work` to them. Among equals it
  // takes the lowest.
  int place(int n, uint64_t work) {
    int best = 0;
    uint64_t least = UINT64_MAX;
    for (int first = 0; first + n <= n_channels_ && least > 0; ++first) {
      const uint64_t most = *std::max_element(load_.begin() + first, load_.begin() + first + n);
      if (most >= least) continue;
      least = most;
      best = first;
    }
    for (int c = best; c < best + n; ++c) load_[static_cast<size_t>(c)] += work / static_cast<uint64_t>(n) + kItemWork;
    return best;
  }
  void clear() { load_ = {}; }

 private:
  static constexpr uint64_t kItemWork = 4096;  // cost of an item apart from its bytes, in bytes
  int n_channels_;
  std::array<uint64_t, proto::kMaxChannels> load_ = {};
};

}  // namespace gpucoll::core
