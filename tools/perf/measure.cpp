#include "perf/measure.h"

#include <algorithm>

#include "perf/messages.h"

namespace gpucoll::perf {
namespace {

double now_us() { return MPI_Wtime() * 1e6; }

// Times `calls` calls that are started one after another, each.
Status time_some(const Call& call, Runner& runner, int calls, MPI_Comm comm, std::vector<double>* times_us) {
  MPI_Barrier(comm);
  const double start = now_us();
  for (int i = 0; i < calls; ++i) GC_TRY(runner.start(call));
  GC_TRY(runner.finish());
  times_us->push_back((now_us() - start) / calls);
  return {};
}

// The slowest rank's time of each call, on rank 0.
std::vector<double> slowest(const std::vector<double>& mine, MPI_Comm comm) {
  std::vector<double> all(mine.size());
  MPI_Reduce(mine.data(), all.data(), static_cast<int>(mine.size()), MPI_DOUBLE, MPI_MAX, 0, comm);
  return all;
}

// One of the sorted times.
double percentile(const std::vector<double>& sorted, size_t percent) {
  return sorted[(sorted.size() * percent + 99) / 100 - 1];
}

struct Sides {
  std::vector<double> ours, baseline;
};

// `one(runner, times)` for both, turn by turn.
template <class One>
Result<Sides> take_turns(Runner& ours, Runner* baseline, int warmup, int rounds, One&& one) {
  Sides sides;
  for (int i = 0; i < warmup + rounds; ++i) {
    if (i == warmup) sides = {};
    GC_TRY(one(ours, &sides.ours));
    if (baseline) GC_TRY(one(*baseline, &sides.baseline));
  }
  return sides;
}

// Times exchanges of a point-to-point test; those of the warm-up are left out.
Status time_exchanges(const Call& call, Runner& runner, int warmup, int exchanges, MPI_Comm comm,
                      std::vector<double>* times_us) {
  MPI_Barrier(comm);
  for (int i = 0; i < warmup + exchanges; ++i) {
    const double start = now_us();
    GC_TRY(run_once(runner, call));
    if (i >= warmup) times_us->push_back(now_us() - start);
  }
  return {};
}

// The time of a message in each exchange, on rank 0.
std::vector<double> of_message(const Call& call, const std::vector<double>& mine, MPI_Comm comm) {
  constexpr double kLeast = 1e-6;  // of a clock that stood still
  const bool latency = call.collective == Collective::latency;
  std::vector<double> shares, all(mine.size());
  for (const double time_us : mine) {
    const double message_us = std::max(time_us / messages_of(call), kLeast);
    shares.push_back(!begins(call) ? 0 : latency ? message_us / (call.ranks / 2) : 1 / message_us);
  }
  MPI_Reduce(shares.data(), all.data(), static_cast<int>(all.size()), MPI_DOUBLE, MPI_SUM, 0, comm);
  for (double& sum : all)
    if (!latency) sum = 1 / std::max(sum, kLeast);
  return all;
}

// Turn by turn, in rounds of many exchanges.
Result<Times> measure_messages(const Call& call, Runner& ours, Runner* baseline, Repeats repeats, MPI_Comm comm) {
  Sides sides;
  for (int round = 0; round < kRounds; ++round) {
    const int exchanges = repeats.iterations * (round + 1) / kRounds - repeats.iterations * round / kRounds;
    if (exchanges == 0) continue;
    GC_TRY(time_exchanges(call, ours, repeats.warmup, exchanges, comm, &sides.ours));
    if (baseline) GC_TRY(time_exchanges(call, *baseline, repeats.warmup, exchanges, comm, &sides.baseline));
  }
  Times times;
  times.ours.call = summarize(of_message(call, sides.ours, comm));
  if (baseline) times.baseline.call = summarize(of_message(call, sides.baseline, comm));
  return times;
}

Status time_computing(Computation& computation, double length_us, std::vector<double>* times_us) {
  const double start = now_us();
  GC_TRY(computation.start(length_us));
  GC_TRY(computation.finish());
  times_us->push_back(now_us() - start);
  return {};
}

Status time_both(const Call& call, Runner& runner, Computation& computation, double length_us, MPI_Comm comm,
                 std::vector<double>* times_us) {
  MPI_Barrier(comm);
  const double start = now_us();
  GC_TRY(runner.start(call));
  GC_TRY(computation.start(length_us));
  GC_TRY(computation.finish());
  GC_TRY(runner.finish());
  times_us->push_back(now_us() - start);
  return {};
}

// Fills in what computing beside the call takes. Every rank computes as long as the slowest rank's call takes.
Status compute_beside(const Call& call, Runner& runner, Computation& computation, Repeats repeats, MPI_Comm comm,
                      Sample* sample) {
  double length_us = sample->call.median_us;
  MPI_Bcast(&length_us, 1, MPI_DOUBLE, 0, comm);
  std::vector<double> alone, both;
  for (int i = 0; i < repeats.warmup + repeats.iterations; ++i) {
    if (i == repeats.warmup) {
      alone.clear();
      both.clear();
    }
    GC_TRY(time_computing(computation, length_us, &alone));
    GC_TRY(time_both(call, runner, computation, length_us, comm, &both));
  }
  sample->computing_us = median(slowest(alone, comm));
  sample->both_us = median(slowest(both, comm));
  return {};
}

}  // namespace

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

Timing summarize(std::vector<double> times_us) {
  std::sort(times_us.begin(), times_us.end());
  return {median(times_us), times_us.front(), times_us.back(), percentile(times_us, 90), percentile(times_us, 99)};
}

Result<Times> measure(const Call& call, Runner& ours, Runner* baseline, Repeats repeats, MPI_Comm comm) {
  if (is_message_test(call.collective)) return measure_messages(call, ours, baseline, repeats, comm);
  const int warmup = repeats.pipelined ? (repeats.warmup > 0) : repeats.warmup;
  const int rounds = repeats.pipelined ? kRounds : repeats.iterations;
  const auto one = [&](Runner& runner, std::vector<double>* times_us) {
    return time_some(call, runner, repeats.pipelined && runner.streams() ? repeats.iterations : 1, comm, times_us);
  };
  GC_TRY_AS(Sides sides, take_turns(ours, baseline, warmup, rounds, one));
  Times times;
  times.ours.call = summarize(slowest(sides.ours, comm));
  if (baseline) times.baseline.call = summarize(slowest(sides.baseline, comm));
  return times;
}

Result<Times> measure_overlap(const Call& call, Runner& ours, Runner* baseline, Computation& computation,
                              Repeats repeats, MPI_Comm comm) {
  GC_TRY_AS(Times times, measure(call, ours, baseline, repeats, comm));
  GC_TRY(compute_beside(call, ours, computation, repeats, comm, &times.ours));
  if (baseline) GC_TRY(compute_beside(call, *baseline, computation, repeats, comm, &times.baseline));
  return times;
}

}  // namespace gpucoll::perf
