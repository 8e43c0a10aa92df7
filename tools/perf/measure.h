// Timing: every call on its own, after a barrier, until it returns with the result there; or pipelined, that is many
// calls one after another on a stream, and the time from the first to the end of the last divided by their number.
// Or a call beside computing: of both alone, and of both at once.
// Or the messages of a point-to-point test: exchanges follow each other without a barrier, and the time of a message is
// that of an exchange divided by its messages, on the rank of a pair that begins: over several pairs the mean of their
// latencies, and what the sum of their bandwidths makes of it.
//
// A call's time is that of the slowest rank; a Timing is over the calls (pipelined: over kRounds rounds of them). A
// baseline is measured turn by turn with ours, so that both see the same machine.
// Thread safety: none; collective.
#pragma once
#include <mpi.h>

#include <vector>

#include "base/status.h"
#include "perf/collective.h"
#include "perf/computing.h"
#include "perf/runner.h"

namespace gpucoll::perf {

struct Timing {
  double median_us = 0, min_us = 0, max_us = 0, p90_us = 0, p99_us = 0;
};

// Of a non-empty list. A percentile is a time that was measured: so many percent of all are not above it.
Timing summarize(std::vector<double> times_us);
// Of a non-empty list: the middle one, or the mean of the two in the middle.
double median(std::vector<double> values);

// What was measured of one side. With computing beside it, `call` is of the call alone.
struct Sample {
  Timing call;
  double computing_us = 0, both_us = 0;
};

struct Times {
  Sample ours, baseline;  // valid on rank 0; baseline only where one was given
};

struct Repeats {
  int warmup, iterations;
  bool pipelined = false;
};
constexpr int kRounds = 5;

// Runs ours and, unless null, the baseline. Those that do not stream are never pipelined.
Result<Times> measure(const Call& call, Runner& ours, Runner* baseline, Repeats repeats, MPI_Comm comm);

// The same with a computation that takes about as long as the call on the slowest rank.
Result<Times> measure_overlap(const Call& call, Runner& ours, Runner* baseline, Computation& computation,
                              Repeats repeats, MPI_Comm comm);

}  // namespace gpucoll::perf
