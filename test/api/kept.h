// The tests of kept operations and of kept messages share this.
#pragma once
#include "ranks.h"

namespace gpucoll_test {

inline constexpr int kRanks = 2;
inline constexpr int kTimes = 6;  // as often an operation comes until it is kept for certain
inline constexpr size_t kCount = 5;
inline constexpr size_t kBytes = kCount * sizeof(int32_t);
using Ints = std::vector<int32_t>;

// Runs body(comm, share, rank) on ranks of two communicators that share one's resources.
inline void on_sharing_ranks(const std::function<void(gpucollComm_t, gpucollComm_t, int)>& body) {
  gpucollConfig_t config = GPUCOLL_CONFIG_INITIALIZER;
  config.splitShare = 1;
  on_ranks_that_destroy(
      kRanks,
      [&](gpucollComm_t comm, int rank) {
        gpucollComm_t share = nullptr;
        GC_OK(gpucollCommSplit(comm, 0, rank, &share));
        body(comm, share, rank);
        GC_OK(gpucollCommDestroy(share));
        GC_OK(gpucollCommDestroy(comm));
      },
      &config);
}

}  // namespace gpucoll_test
