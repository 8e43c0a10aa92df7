// The measurements of gpucoll-tune, in order.
//
// Thread safety: none. Forces algorithm and protocol by parameters of this process, so nothing else may run in it.
#pragma once
#include <vector>

#include "core/plan/tuner.h"
#include "core/plan/tuning_file.h"
#include "tune/team.h"

namespace gpucoll::tune {

struct Plan {
  bool emulated = false;
  bool tells = true;  // how far it is and what was fastest, on standard error
  std::vector<int> ranks;
  std::vector<core::Function> functions;
  std::vector<uint64_t> sizes;  // of a rank's largest buffer, ascending
  uint64_t max_bytes = 0;
  Repeats repeats = {5, 20};
};

// The times of a team of so many ranks. Of processes: collective, the same on all ranks.
Result<core::TuningTable> sweep(const Plan& plan, Team& team, int n_ranks);

}  // namespace gpucoll::tune
