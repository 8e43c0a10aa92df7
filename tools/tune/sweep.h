// The measurements of gpucoll-tune, in order.
//
// Thread safety: none. Forces algorithm and protocol by parameters of this process, so nothing else may run in it.
#pragma once
#include <vector>

#include "core/tuner.h"
#include "core/tuning_file.h"
#include "tune/team.h"

namespace gpucoll::tune {

struct Plan {
  bool emulated = false;
  std::vector<int> ranks;
  std::vector<core::Function> functions;
  std::vector<uint64_t> sizes;  // of a rank's largest buffer, ascending
  uint64_t max_bytes = 0;
  Repeats repeats = {5, 20};
};

// A table for each number of ranks. Tells on standard error how far it is and what was fastest.
Result<std::vector<core::TuningTable>> sweep(const Plan& plan);

}  // namespace gpucoll::tune
