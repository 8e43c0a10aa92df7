// gpucoll-perf: times and checks a collective on device memory, through MPI or gpucoll's C API.
//
// Exit status: 0 all well, 1 something is wrong in a result, 2 it could not run as asked, 3 (of rank 0) something is
// slower than in the run that --compare names. Failures in the middle of a run end the whole job with MPI_Abort: other
// ranks may be waiting inside a collective.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "common/output.h"
#include "perf/agree.h"
#include "perf/bench.h"
#include "perf/computing.h"
#include "perf/messages.h"
#include "perf/options.h"
#include "perf/report.h"
#include "perf/runner.h"
#include "perf/session.h"

namespace gpucoll::perf {
namespace {

constexpr int kWrong = 1, kCannot = 2, kSlower = 3;

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

int tell(const std::string& text) {
  Status told = tools::print(text);
  return told ? 0 : refuse(told, 0);
}

[[noreturn]] void give_up(const Status& status) {
  fmt::print(stderr, "gpucoll-perf: {}\n", status.what());
  std::fflush(stderr);
  MPI_Abort(MPI_COMM_WORLD, kCannot);
  std::abort();
}

Form form_of(const Options& options) {
  return options.persistent ? Form::persistent : options.nonblocking ? Form::nonblocking : Form::blocking;
}

Result<std::unique_ptr<Runner>> make_runner(const Options& options, const Buffers& buffers) {
  if (is_message_test(options.collective)) return message_runner(buffers, MPI_COMM_WORLD);
  if (options.api) return api_runner(buffers, options.registered, MPI_COMM_WORLD);
  return mpi_runner(buffers, form_of(options), MPI_COMM_WORLD);
}

// For point-to-point tests.
Result<std::unique_ptr<Runner>> make_message_baseline(const Options& options, const MpiSession& mpi,
                                                      const Heading& heading, const Buffers& buffers,
                                                      const std::vector<Call>& calls) {
  const bool staged = options.baseline == BaselineChoice::staged;
  GC_TRY_AS(Buffers host, allocate_buffers(mpi, heading, calls, staged ? MemoryKind::pinned : MemoryKind::host));
  if (staged) return staged_message_runner(buffers, std::move(host), MPI_COMM_WORLD);
  return host_message_runner(std::move(host), MPI_COMM_WORLD);
}

Result<std::unique_ptr<Runner>> make_baseline(const Options& options, const MpiSession& mpi, const Heading& heading,
                                              const Buffers& buffers, const std::vector<Call>& calls) {
  switch (options.baseline) {
    case BaselineChoice::none: break;
    case BaselineChoice::contiguous: return contiguous_message_runner(buffers, MPI_COMM_WORLD);
    case BaselineChoice::staged: return make_message_baseline(options, mpi, heading, buffers, calls);
    case BaselineChoice::host:
      if (is_message_test(options.collective)) return make_message_baseline(options, mpi, heading, buffers, calls);
      return host_runner(largest_send_bytes(calls), largest_recv_bytes(calls), form_of(options), MPI_COMM_WORLD);
    case BaselineChoice::nccl:
      if (heading.device_kind != "cuda")
        return Status::error(Code::unsupported,
                             "--baseline nccl needs GPUs, and this is the emulated device; take --baseline host");
      return nccl_runner(buffers, MPI_COMM_WORLD);
  }
  return std::unique_ptr<Runner>();
}

// The kind of this rank's buffers.
MemoryKind memory_kind(const Options& options, const Call& call) {
  if (!is_message_test(call.collective)) return MemoryKind::device;
  return begins(call) ? options.begins : options.answers;
}

// Leaves the calls that the runner knows. Errors: unsupported, where none is left.
Status keep_possible(const Runner& runner, std::vector<Call>* calls) {
  calls->erase(std::remove_if(calls->begin(), calls->end(), [&](const Call& call) { return !runner.can(call); }),
               calls->end());
  if (!calls->empty()) return {};
  return Status(Code::unsupported, fmt::format("{} has no such type", runner.description()));
}

// On this rank's GPU, where it is a kernel.
Result<std::unique_ptr<Computation>> make_computation(const Options& options, const Heading& heading) {
  switch (options.overlap) {
    case OverlapChoice::none: break;
    case OverlapChoice::host: return host_computation();
    case OverlapChoice::kernel:
      if (heading.device_kind != "cuda")
        return Status::error(Code::unsupported,
                             "--overlap kernel needs GPUs, and this is the emulated device; take --overlap host");
      auto made = kernel_computation(heading.own_index, options.overlap_blocks);
      GC_TRY(agree(made.status(), MPI_COMM_WORLD));
      return made;
  }
  return std::unique_ptr<Computation>();
}

// Null but on rank 0.
Result<std::unique_ptr<Report>> open_report(const Options& options, const Heading& heading,
                                            const std::vector<Call>& calls, int rank) {
  std::unique_ptr<Report> report;
  Status opened;
  if (rank == 0) {
    auto made = Report::create(options, heading, calls);
    if (made)
      report = std::make_unique<Report>(*std::move(made));
    else
      opened = made.status();
  }
  GC_TRY(agree(opened, MPI_COMM_WORLD));
  return report;
}

// The exit status. Errors: what kept the run from starting, the same on every rank.
Result<int> run(const Options& options, const MpiSession& mpi) {
  GC_TRY_AS(std::vector<Call> calls, plan(options, mpi.rank(), mpi.ranks()));
  if (!options.api) GC_TRY(agree(require_component(), MPI_COMM_WORLD));
  GC_TRY_AS(Heading heading, choose_device(mpi));
  GC_TRY_AS(Buffers buffers, allocate_buffers(mpi, heading, calls, memory_kind(options, calls.front())));
  GC_TRY_AS(std::unique_ptr<Runner> runner, make_runner(options, buffers));
  GC_TRY(keep_possible(*runner, &calls));
  GC_TRY_AS(std::unique_ptr<Runner> baseline, make_baseline(options, mpi, heading, buffers, calls));
  GC_TRY_AS(std::unique_ptr<Computation> computation, make_computation(options, heading));
  if (baseline) {
    heading.baseline = baseline->description();
    heading.baseline_name = baseline->name();
  }
  if (computation) heading.computing = computation->description();
  GC_TRY_AS(std::unique_ptr<Report> report, open_report(options, heading, calls, mpi.rank()));
  auto must = [](auto&& step) {
    if (Status status = contained(step); !status) give_up(status);
  };
  if (report) must([&] { return report->begin(); });
  Bench bench(options, buffers, *runner, baseline.get(), computation.get(), report.get());
  for (const Call& call : calls) must([&] { return bench.measure_row(call); });
  if (report) must([&] { return report->finish(); });
  if (bench.wrong()) return kWrong;
  return report && report->slower_rows() ? kSlower : 0;
}

int main(int argc, char** argv) {
  auto options = parse_options(argc, argv);
  // Help and mistakes of a single process need no MPI.
  if (!launched() && !options) return refuse(options.status(), 0);
  if (!launched() && !options->text.empty()) return tell(options->text);
  MpiSession mpi(&argc, &argv);
  if (!options) return refuse(options.status(), mpi.rank());
  if (!options->text.empty()) return mpi.rank() == 0 ? tell(options->text) : 0;
  auto status = run(*options, mpi);
  return status ? *status : refuse(status.status(), mpi.rank());
}

}  // namespace
}  // namespace gpucoll::perf

int main(int argc, char** argv) { return gpucoll::perf::main(argc, argv); }
