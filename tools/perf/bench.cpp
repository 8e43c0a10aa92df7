#include "perf/bench.h"

#include <algorithm>

#include "perf/measure.h"

namespace gpucoll::perf {
namespace {

constexpr int kExamples = 10;

// Small messages are exchanged, and checked, several times.
int checked_calls(const Call& call) {
  constexpr size_t kMost = 10, kBytes = 256 << 10;
  if (!is_message_test(call.collective)) return 1;
  const size_t bytes = recv_elements(call) * info(call.type).bytes;
  return static_cast<int>(std::clamp<size_t>(kBytes / std::max<size_t>(bytes, 1), 1, kMost));
}

}  // namespace

Status Bench::measure_row(const Call& call) {
  Runner* baseline = baseline_ && baseline_->can(call) ? baseline_ : nullptr;
  Row row;
  row.call = call;
  row.with_baseline = baseline != nullptr;
  GC_TRY(check(call, &row));
  for (int i = 0; i < options_.repeat; ++i) {
    GC_TRY_AS(const Times times, run(call, baseline));
    row.runs.push_back(times);
    // Once more with other data, now that connections and caches are warm.
    GC_TRY(check(call, &row));
    GC_TRY(take_fingerprint(call, &row));
  }
  wrong_ += row.wrong;
  if (report_) report_->row(std::move(row));
  return {};
}

Result<Times> Bench::run(const Call& call, Runner* baseline) {
  const Repeats repeats = {options_.warmup, options_.iterations, options_.pipelined};
  if (!computation_) return measure(call, runner_, baseline, repeats, MPI_COMM_WORLD);
  return measure_overlap(call, runner_, baseline, *computation_, repeats, MPI_COMM_WORLD);
}

Status Bench::check(const Call& call, Row* row) {
  if (!options_.check) return {};
  for (int i = 0; i < checked_calls(call); ++i) {
    GC_TRY_AS(const Verdict verdict, checker_.check(runner_, call));
    note(verdict, row);
  }
  return {};
}

Status Bench::take_fingerprint(const Call& call, Row* row) {
  if (!options_.check || call.collective == Collective::barrier || is_message_test(call.collective)) return {};
  Verdict verdict;
  GC_TRY_AS(uint64_t bits, checker_.fingerprint(runner_, call, &verdict));
  MPI_Bcast(&bits, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
  if (row->bits && *row->bits != bits) verdict = {verdict.wrong + 1, "the bits of the result differ between runs"};
  row->bits = bits;
  note(verdict, row);
  return {};
}

void Bench::note(const Verdict& verdict, Row* row) {
  const bool first_of_row = verdict.wrong && row->wrong == 0;
  row->wrong += verdict.wrong;
  if (first_of_row && report_ && examples_++ < kExamples) report_->explain(verdict.example);
}

}  // namespace gpucoll::perf
