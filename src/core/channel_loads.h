// Which channels of a plan an operation takes.
//
// Thread safety: none, the planner's own.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>

#include "proto/format/plan.h"

namespace gpucoll::core {

// What the channels of one plan have to do so far: collectives that do not need all of them are put where least is to
// be done, so that small ones run side by side. From facts that are equal on all ranks alone.
class Loads {
 public:
  explicit Loads(int n_channels) : n_channels_(n_channels) {}
  // The first of n channels for so much work. Where all are alike, the lowest.
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
  static constexpr uint64_t kItemWork = 4096;  // what an item costs apart from its bytes, in bytes
  int n_channels_;
  std::array<uint64_t, proto::kMaxChannels> load_ = {};
};

}  // namespace gpucoll::core
