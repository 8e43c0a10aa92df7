// gpucoll-perf: times and checks a collective on device memory, through MPI or gpucoll's C API.
//
// Exit status: 0 all well, 1 something is wrong in a result, 2 it could not run as asked. Failures in the middle of
// a run end the whole job with MPI_Abort: other ranks may be waiting inside a collective.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "perf/agree.h"
#include "perf/check.h"
#include "perf/measure.h"
#include "perf/options.h"
#include "perf/report.h"
#include "perf/runner.h"
#include "perf/session.h"

namespace gpucoll::perf {
namespace {

constexpr int kWrong = 1, kCannot = 2;

// Whether a launcher has started this process as one of several.
bool launched() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"})
    if (std::getenv(name)) return true;
  return false;
}

int refuse(const Status& status, int rank) {
  if (rank == 0) fmt::print(stderr, "gpucoll-perf: {}\n", status.what());
  std::fflush(stderr);
  return kCannot;
}

[[noreturn]] void give_up(const Status& status) {
  fmt::print(stderr, "gpucoll-perf: {}\n", status.what());
  std::fflush(stderr);
  MPI_Abort(MPI_COMM_WORLD, kCannot);
  std::abort();
}

Result<std::unique_ptr<Runner>> make_runner(const Options& options, const Buffers& buffers) {
  if (options.api) return api_runner(buffers, options.registered, MPI_COMM_WORLD);
  return mpi_runner(buffers, MPI_COMM_WORLD);
}

Result<std::unique_ptr<Runner>> make_baseline(const Options& options, const Heading& heading, const Buffers& buffers,
                                              const std::vector<Call>& calls) {
  switch (options.baseline) {
    case BaselineChoice::none: break;
    case BaselineChoice::host: return host_runner(largest_send_bytes(calls), largest_recv_bytes(calls), MPI_COMM_WORLD);
    case BaselineChoice::nccl:
      if (heading.device_kind != "cuda")
        return Status::error(Code::unsupported,
                             "--baseline nccl needs GPUs, and this is the emulated device; take --baseline host");
      return nccl_runner(buffers, MPI_COMM_WORLD);
  }
  return std::unique_ptr<Runner>();
}

// Leaves the calls that the runner knows. Errors: unsupported, where none is left.
Status keep_possible(const Runner& runner, std::vector<Call>* calls) {
  calls->erase(std::remove_if(calls->begin(), calls->end(), [&](const Call& call) { return !runner.can(call); }),
               calls->end());
  if (!calls->empty()) return {};
  return Status(Code::unsupported, fmt::format("{} has no such type", runner.description()));
}

// Everything after the start-up: the table.
class Run {
 public:
  Run(const Options& options, const Buffers& buffers, Runner& runner, Runner* baseline, Report* report)
      : options_(options), runner_(runner), baseline_(baseline), report_(report), checker_(buffers, MPI_COMM_WORLD) {}

  Status row(const Call& call) {
    Row row{call, {}, std::nullopt, 0};
    GC_TRY(check(call, &row));
    Runner* baseline = baseline_ && baseline_->can(call) ? baseline_ : nullptr;
    const Repeats repeats = {options_.warmup, options_.iterations, options_.pipelined};
    GC_TRY_AS(Times times, measure(call, runner_, baseline, repeats, MPI_COMM_WORLD));
    // Once more with other data, now that connections and caches are warm.
    GC_TRY(check(call, &row));
    row.ours = times.ours;
    if (baseline) row.baseline = times.baseline;
    wrong_ += row.wrong;
    if (report_) report_->row(row);
    return {};
  }

  uint64_t wrong() const { return wrong_; }

 private:
  static constexpr int kExamples = 10;

  Status check(const Call& call, Row* row) {
    if (!options_.check) return {};
    GC_TRY(checker_.prepare(call));
    GC_TRY(run_once(runner_, call));
    GC_TRY_AS(Verdict verdict, checker_.inspect(call));
    bool first_of_row = verdict.wrong && row->wrong == 0;
    row->wrong += verdict.wrong;
    if (first_of_row && report_ && examples_++ < kExamples) report_->explain(verdict.example);
    return {};
  }

  const Options& options_;
  Runner& runner_;
  Runner* baseline_;
  Report* report_;  // null but on rank 0
  Checker checker_;
  uint64_t wrong_ = 0;
  int examples_ = 0;
};

Result<std::unique_ptr<Report>> open_report(const Options& options, int rank) {
  std::unique_ptr<Report> report;
  Status opened;
  if (rank == 0) {
    auto made = Report::create(options);
    if (made)
      report = std::make_unique<Report>(*std::move(made));
    else
      opened = made.status();
  }
  GC_TRY(agree(opened, MPI_COMM_WORLD));
  return report;
}

// The number of wrong elements. Errors: what kept the run from starting, the same on every rank.
Result<uint64_t> run(const Options& options, const MpiSession& mpi) {
  GC_TRY_AS(std::vector<Call> calls, plan(options, mpi.rank(), mpi.ranks()));
  if (!options.api) GC_TRY(agree(require_component(), MPI_COMM_WORLD));
  GC_TRY_AS(Heading heading, choose_device(mpi));
  GC_TRY_AS(Buffers buffers, allocate_buffers(mpi, heading, calls));
  GC_TRY_AS(std::unique_ptr<Runner> runner, make_runner(options, buffers));
  GC_TRY(keep_possible(*runner, &calls));
  GC_TRY_AS(std::unique_ptr<Runner> baseline, make_baseline(options, heading, buffers, calls));
  GC_TRY_AS(std::unique_ptr<Report> report, open_report(options, mpi.rank()));
  if (baseline) {
    heading.baseline = baseline->description();
    heading.baseline_name = baseline->name();
  }
  if (report) report->begin(heading, calls);
  Run table(options, buffers, *runner, baseline.get(), report.get());
  for (const Call& call : calls)
    if (Status status = table.row(call); !status) give_up(status);
  if (report)
    if (Status status = report->finish(); !status) give_up(status);
  return table.wrong();
}

int main(int argc, char** argv) {
  auto options = parse_options(argc, argv);
  // Help and mistakes of a single process need no MPI.
  if (!launched() && !options) return refuse(options.status(), 0);
  if (!launched() && !options->text.empty()) {
    fmt::print("{}", options->text);
    return 0;
  }
  MpiSession mpi(&argc, &argv);
  if (!options) return refuse(options.status(), mpi.rank());
  if (!options->text.empty()) {
    if (mpi.rank() == 0) fmt::print("{}", options->text);
    return 0;
  }
  auto wrong = run(*options, mpi);
  if (!wrong) return refuse(wrong.status(), mpi.rank());
  return *wrong ? kWrong : 0;
}

}  // namespace
}  // namespace gpucoll::perf

int main(int argc, char** argv) { return gpucoll::perf::main(argc, argv); }
