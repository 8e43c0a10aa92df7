// Timing: every call on its own, after a barrier, until it returns with the result there.
//
// A call's time is that of the slowest rank; minimum, median and maximum are over the calls. A baseline is measured
// turn by turn with ours, so that both see the same machine.
// Thread safety: none; collective.
#pragma once
#include <mpi.h>

#include <vector>

#include "base/status.h"
#include "perf/baseline.h"
#include "perf/check.h"
#include "perf/collective.h"

namespace gpucoll::perf {

struct Timing {
  double median_us = 0, min_us = 0, max_us = 0;
};

// Of a non-empty list.
Timing summarize(std::vector<double> times_us);

struct Repeats {
  int warmup, iterations;
};

struct Times {
  Timing ours, baseline;  // valid on rank 0; baseline only where one was given
};

// Runs ours (on `buffers`) and, unless null, the baseline.
Result<Times> measure(const Call& call, const Buffers& buffers, Baseline* baseline, Repeats repeats, MPI_Comm comm);
// One call of ours.
Status run_once(const Call& call, const Buffers& buffers, MPI_Comm comm);

}  // namespace gpucoll::perf
