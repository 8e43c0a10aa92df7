// gpucoll-tune: measures every way in which a function can run on this machine's devices, and writes the tuning file
// that the parameter tuning_file names. Alone it runs a rank a thread; under mpirun its processes are the ranks.
//
// Exit status: 0, or 2 where it could not do what was asked. Failures in the middle end the whole job with MPI_Abort:
// other ranks may be waiting inside a call.
#include <fmt/format.h>
#include <gpucoll/gpucoll.h>
#include <mpi.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "base/params.h"
#include "common/command_line.h"
#include "common/output.h"
#include "perf/heading.h"
#include "perf/session.h"
#include "tune/sweep.h"
#include "tune/ways.h"

namespace gpucoll::tune {
namespace {

constexpr int kCannot = 2;

struct Words {
  std::vector<int> ranks;
  std::vector<std::string> functions;
  std::string min_bytes = "8", max_bytes, output;
  double factor = 4;
  int iterations = 20, warmup = 5;
};

int refuse(const std::string& sentence) {
  fmt::print(stderr, "gpucoll-tune: {}\n", sentence);
  return kCannot;
}
Status bad(const std::string& sentence) { return Status(Code::invalid_argument, sentence); }

void declare(CLI::App& app, Words& words) {
  app.set_version_flag("--version", std::string("gpucoll-tune ") + library_version());
  app.add_option("-o,--output", words.output, "The tuning file; standard output if not given");
  app.add_option("-n,--np", words.ranks,
                 "Numbers of ranks, such as 2,4; all from 2 to the number of devices or processes")
      ->delimiter(',');
  app.add_option("--functions", words.functions, "What is measured, such as allreduce,sendrecv; all")->delimiter(',');
  app.add_option("-b,--minbytes", words.min_bytes, "Smallest size, of a rank's largest buffer")->capture_default_str();
  app.add_option("-e,--maxbytes", words.max_bytes, "Largest size; 256M, or 256K on emulated devices");
  app.add_option("-f,--stepfactor", words.factor, "Each size is this times the one before")->capture_default_str();
  app.add_option("-i,--iters", words.iterations, "Timed calls of each")->capture_default_str();
  app.add_option("-w,--warmup_iters", words.warmup, "Calls before them that are not timed")->capture_default_str();
}

Status read_ranks(const Words& words, int most, const char* of_what, Plan& plan) {
  plan.ranks = words.ranks;
  for (int n = 2; words.ranks.empty() && n <= most; ++n) plan.ranks.push_back(n);
  if (plan.ranks.empty()) return bad(fmt::format("there is {} of the {}: nothing to tune", most, of_what));
  for (int n : plan.ranks)
    if (n < 2 || n > most) return bad(fmt::format("-n {} is not from 2 to the {} {} here", n, most, of_what));
  std::sort(plan.ranks.begin(), plan.ranks.end());
  plan.ranks.erase(std::unique(plan.ranks.begin(), plan.ranks.end()), plan.ranks.end());
  return {};
}

Status read_functions(const Words& words, bool scans, Plan& plan) {
  std::string names;
  for (int i = 0; i < proto::kFunctions; ++i) {
    const auto function = static_cast<core::Function>(i);
    if (!can_be_measured(function, scans)) continue;
    names += (names.empty() ? "" : ", ") + std::string(core::name(function));
    const bool named =
        std::find(words.functions.begin(), words.functions.end(), core::name(function)) != words.functions.end();
    if (named || words.functions.empty()) plan.functions.push_back(function);
  }
  if (!words.functions.empty() && plan.functions.size() != words.functions.size())
    return bad(fmt::format("--functions takes {}{}", names,
                           scans ? "" : "; scan and exscan under mpirun with the component coll/gpucoll"));
  return {};
}

Status read_sizes(const Words& words, Plan& plan) {
  const std::string most = !words.max_bytes.empty() ? words.max_bytes : plan.emulated ? "256K" : "256M";
  GC_TRY_AS(const int64_t min, parse_size(words.min_bytes.c_str()));
  GC_TRY_AS(const int64_t max, parse_size(most.c_str()));
  if (min < 4 || min > max) return bad(fmt::format("-b {} is not from 4 to -e {}", words.min_bytes, most));
  if (!(words.factor >= 1.5) || words.factor > 1e6)
    return bad(fmt::format("-f {} is not from 1.5 to 1000000", words.factor));
  if (words.iterations < 1 || words.iterations > 100000 || words.warmup < 0 || words.warmup > 100000)
    return bad("-i is from 1 and -w from 0 to 100000");
  plan.max_bytes = static_cast<uint64_t>(max);
  for (auto size = static_cast<double>(min); size <= static_cast<double>(max); size *= words.factor)
    plan.sizes.push_back(static_cast<uint64_t>(size));
  plan.repeats = {words.warmup, words.iterations};
  return {};
}

Status write(const std::string& path, const std::string& text) {
  if (path.empty()) return tools::print(text);
  std::FILE* file = std::fopen(path.c_str(), "w");
  if (!file) return Status::error(Code::system, "cannot write %s: %s", path.c_str(), std::strerror(errno));
  std::fputs(text.c_str(), file);
  const bool written = !std::fflush(file) && !std::ferror(file);
  std::fclose(file);
  return written ? Status() : Status::error(Code::system, "could not write all of %s", path.c_str());
}

std::string tuning_text(const std::vector<core::TuningTable>& tables, const char* ranks, const char* device) {
  return core::format_tuning(tables, fmt::format("gpucoll-tune {}, {}, {}", library_version(), ranks, device));
}

// Ranks are threads.
Status run(const Words& words) {
  GC_TRY(params_status());
  Plan plan;
  const char* kind = "";
  int devices = 0;
  if (gpucollDeviceKind(&kind) != gpucollSuccess || gpucollDeviceCount(&devices) != gpucollSuccess)
    return Status::error(Code::unsupported, "%s", gpucollGetLastError(nullptr));
  plan.emulated = !std::strcmp(kind, "emu");
  GC_TRY(read_ranks(words, devices, "devices", plan));
  GC_TRY(read_functions(words, false, plan));
  GC_TRY(read_sizes(words, plan));
  char device[64] = "";
  gpucollDeviceName(0, device, sizeof device);
  std::vector<core::TuningTable> tables;
  for (int n : plan.ranks) {
    GC_TRY_AS(const auto team, thread_team(n, plan.max_bytes));
    GC_TRY_AS(tables.emplace_back(), sweep(plan, *team, n));
  }
  return write(words.output, tuning_text(tables, "ranks in one process", device));
}

[[noreturn]] void give_up(const Status& status) {
  refuse(status.what());
  std::fflush(stderr);
  MPI_Abort(MPI_COMM_WORLD, kCannot);
  std::abort();
}

// Those that wait for the others leave them the processors.
void meet_asleep() {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ibarrier(MPI_COMM_WORLD, &request);
  for (int done = 0; !done; usleep(1000)) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
}

// The first n processes; nothing on the others. Errors end the job.
std::optional<core::TuningTable> sweep_processes(const Plan& plan, int n, int rank) {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank < n ? 0 : MPI_UNDEFINED, rank, &comm);
  std::optional<core::TuningTable> table;
  if (comm != MPI_COMM_NULL) {
    auto team = process_team(comm, plan.max_bytes);
    if (!team) give_up(team.status());
    auto swept = sweep(plan, **team, n);
    if (!swept) give_up(swept.status());
    table = *std::move(swept);
    team->reset();
    MPI_Comm_free(&comm);
  }
  meet_asleep();
  return table;
}

// Ranks are processes. Errors: what kept it from starting, the same on all of them.
Status run(const Words& words, const perf::MpiSession& mpi) {
  GC_TRY(params_status());
  GC_TRY_AS(const perf::Heading heading, perf::choose_device(mpi));
  Plan plan;
  plan.emulated = heading.device_kind == "emu";
  plan.tells = mpi.rank() == 0;
  GC_TRY(read_ranks(words, mpi.ranks(), "processes", plan));
  GC_TRY(read_functions(words, perf::require_component().ok(), plan));
  GC_TRY(read_sizes(words, plan));
  std::vector<core::TuningTable> tables;
  for (int n : plan.ranks)
    if (auto table = sweep_processes(plan, n, mpi.rank())) tables.push_back(*std::move(table));
  if (mpi.rank() != 0) return {};
  return write(words.output, tuning_text(tables, "a process for each rank", heading.places[0].device));
}

// Whether mpirun has started this process as one of several.
bool launched() {
  const char* size = std::getenv("OMPI_COMM_WORLD_SIZE");
  return size && std::atoi(size) > 1;
}

// Help and mistakes are told once.
int run_launched(const Result<std::string>& text, const Words& words, int* argc, char*** argv) {
  const perf::MpiSession mpi(argc, argv);
  Status status = !text ? text.status() : text->empty() ? run(words, mpi) : Status();
  if (mpi.rank() == 0 && text && !text->empty()) status = tools::print(*text);
  if (status) return 0;
  return mpi.rank() == 0 ? refuse(status.what()) : kCannot;
}

int main(int argc, char** argv) {
  Words words;
  CLI::App app(
      "Measures every way in which collectives and messages can run on this machine's devices and writes a tuning "
      "file, "
      "for the parameter tuning_file. Alone: ranks are threads of one process; under mpirun: processes.",
      "gpucoll-tune");
  declare(app, words);
  auto text = tools::read_command_line(app, argc, argv);
  if (launched()) return run_launched(text, words, &argc, &argv);
  if (!text) return refuse(text.status().what());
  Status status = text->empty() ? run(words) : tools::print(*text);
  return status ? 0 : refuse(status.what());
}

}  // namespace
}  // namespace gpucoll::tune

int main(int argc, char** argv) { return gpucoll::tune::main(argc, argv); }
