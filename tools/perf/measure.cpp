#include "perf/measure.h"

#include <algorithm>

namespace gpucoll::perf {
namespace {

// Times `calls` calls that are started one after another, each.
Status time_some(const Call& call, Runner& runner, int calls, MPI_Comm comm, std::vector<double>* times_us) {
  MPI_Barrier(comm);
  const double start = MPI_Wtime();
  for (int i = 0; i < calls; ++i) GC_TRY(runner.start(call));
  GC_TRY(runner.finish());
  times_us->push_back((MPI_Wtime() - start) * 1e6 / calls);
  return {};
}

// The slowest rank's time of each call, on rank 0.
Timing slowest(const std::vector<double>& mine, MPI_Comm comm) {
  std::vector<double> all(mine.size());
  MPI_Reduce(mine.data(), all.data(), static_cast<int>(mine.size()), MPI_DOUBLE, MPI_MAX, 0, comm);
  return summarize(std::move(all));
}

}  // namespace

Timing summarize(std::vector<double> times_us) {
  std::sort(times_us.begin(), times_us.end());
  size_t middle = times_us.size() / 2;
  double median = times_us.size() % 2 ? times_us[middle] : (times_us[middle - 1] + times_us[middle]) / 2;
  return {median, times_us.front(), times_us.back()};
}

Result<Times> measure(const Call& call, Runner& ours, Runner* baseline, Repeats repeats, MPI_Comm comm) {
  std::vector<double> our_times, their_times;
  auto calls_of = [&](Runner& runner) { return repeats.pipelined && runner.streams() ? repeats.iterations : 1; };
  const int warmup = repeats.pipelined ? (repeats.warmup > 0) : repeats.warmup;
  const int rounds = repeats.pipelined ? kRounds : repeats.iterations;
  for (int i = 0; i < warmup + rounds; ++i) {
    if (i == warmup) {
      our_times.clear();
      their_times.clear();
    }
    GC_TRY(time_some(call, ours, calls_of(ours), comm, &our_times));
    if (baseline) GC_TRY(time_some(call, *baseline, calls_of(*baseline), comm, &their_times));
  }
  Times times;
  times.ours = slowest(our_times, comm);
  if (baseline) times.baseline = slowest(their_times, comm);
  return times;
}

}  // namespace gpucoll::perf
