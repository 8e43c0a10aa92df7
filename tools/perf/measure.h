// Timing: every call on its own, after a barrier, until it returns with the result there; or pipelined, that is many
// calls one after another on a stream, and the time from the first to the end of the last divided by their number.
//
// A call's time is that of the slowest rank; minimum, median and maximum are over the calls (pipelined: over
// kRounds rounds of them). A baseline is measured turn by turn with ours, so that both see the same machine.
// Thread safety: none; collective.
#pragma once
#include <mpi.h>

#include <vector>

#include "base/status.h"
#include "perf/collective.h"
#include "perf/runner.h"

namespace gpucoll::perf {

struct Timing {
  double median_us = 0, min_us = 0, max_us = 0;
};

// Of a non-empty list.
Timing summarize(std::vector<double> times_us);

struct Repeats {
  int warmup, iterations;
  bool pipelined = false;
};
constexpr int kRounds = 5;

struct Times {
  Timing ours, baseline;  // valid on rank 0; baseline only where one was given
};

// Runs ours and, unless null, the baseline. Those that do not stream are never pipelined.
Result<Times> measure(const Call& call, Runner& ours, Runner* baseline, Repeats repeats, MPI_Comm comm);

}  // namespace gpucoll::perf
