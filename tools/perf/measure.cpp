#include "perf/measure.h"

#include <fmt/format.h>

#include <algorithm>

namespace gpucoll::perf {
namespace {

template <class F>
Status time_one(MPI_Comm comm, std::vector<double>* times_us, F&& run) {
  MPI_Barrier(comm);
  double start = MPI_Wtime();
  GC_TRY(run());
  times_us->push_back((MPI_Wtime() - start) * 1e6);
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

Status run_once(const Call& call, const Buffers& buffers, MPI_Comm comm) {
  int rc = run_mpi(call, buffers.send.at(0), buffers.recv.at(0), comm);
  if (rc == MPI_SUCCESS) return {};
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(rc, text, &length);
  return Status(Code::remote, fmt::format("rank {}: MPI {} of {} bytes of {} failed: {}", call.rank,
                                          name(call.collective), table_bytes(call), info(call.type).name, text));
}

Result<Times> measure(const Call& call, const Buffers& buffers, Baseline* baseline, Repeats repeats, MPI_Comm comm) {
  std::vector<double> ours, theirs;
  auto run_ours = [&] { return run_once(call, buffers, comm); };
  auto run_theirs = [&] { return baseline->run(call); };
  for (int i = 0; i < repeats.warmup + repeats.iterations; ++i) {
    if (i == repeats.warmup) {
      ours.clear();
      theirs.clear();
    }
    GC_TRY(time_one(comm, &ours, run_ours));
    if (baseline) GC_TRY(time_one(comm, &theirs, run_theirs));
  }
  Times times;
  times.ours = slowest(ours, comm);
  if (baseline) times.baseline = slowest(theirs, comm);
  return times;
}

}  // namespace gpucoll::perf
