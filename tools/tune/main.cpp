// gpucoll-tune: measures every algorithm and protocol of every collective on this machine's devices, from one process,
// and writes the tuning file that the parameter tuning_file names.
//
// Exit status: 0, or 2 where it could not do what was asked.
#include <fmt/format.h>
#include <gpucoll/gpucoll.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "base/params.h"
#include "common/command_line.h"
#include "common/output.h"
#include "tune/sweep.h"

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
  app.add_option("-n,--np", words.ranks, "Numbers of ranks, such as 2,4; all from 2 to the number of devices")
      ->delimiter(',');
  app.add_option("--functions", words.functions, "Collectives, such as allreduce,broadcast; all")->delimiter(',');
  app.add_option("-b,--minbytes", words.min_bytes, "Smallest size, of a rank's largest buffer")->capture_default_str();
  app.add_option("-e,--maxbytes", words.max_bytes, "Largest size; 256M, or 256K on emulated devices");
  app.add_option("-f,--stepfactor", words.factor, "Each size is this times the one before")->capture_default_str();
  app.add_option("-i,--iters", words.iterations, "Timed calls of each")->capture_default_str();
  app.add_option("-w,--warmup_iters", words.warmup, "Calls before them that are not timed")->capture_default_str();
}

Status read_ranks(const Words& words, int devices, Plan& plan) {
  plan.ranks = words.ranks;
  for (int n = 2; words.ranks.empty() && n <= devices; ++n) plan.ranks.push_back(n);
  if (plan.ranks.empty()) return bad(fmt::format("there is {} device: nothing to tune", devices));
  for (int n : plan.ranks)
    if (n < 2 || n > devices) return bad(fmt::format("-n {} is not from 2 to the {} devices here", n, devices));
  std::sort(plan.ranks.begin(), plan.ranks.end());
  plan.ranks.erase(std::unique(plan.ranks.begin(), plan.ranks.end()), plan.ranks.end());
  return {};
}

// Those of the C API.
bool can_be_measured(core::Function function) {
  return function != core::Function::send_recv && function != core::Function::scan &&
         function != core::Function::exscan && !core::is_exchange(function);
}

Status read_functions(const Words& words, Plan& plan) {
  for (int i = 0; i < proto::kFunctions; ++i) {
    const auto function = static_cast<core::Function>(i);
    if (!can_be_measured(function)) continue;
    const bool named =
        std::find(words.functions.begin(), words.functions.end(), core::name(function)) != words.functions.end();
    if (named || words.functions.empty()) plan.functions.push_back(function);
  }
  if (!words.functions.empty() && plan.functions.size() != words.functions.size())
    return bad("--functions takes allreduce, broadcast, reduce, allgather, reduce_scatter");
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

Status run(const Words& words) {
  GC_TRY(params_status());
  Plan plan;
  const char* kind = "";
  int devices = 0;
  if (gpucollDeviceKind(&kind) != gpucollSuccess || gpucollDeviceCount(&devices) != gpucollSuccess)
    return Status::error(Code::unsupported, "%s", gpucollGetLastError(nullptr));
  plan.emulated = !std::strcmp(kind, "emu");
  GC_TRY(read_ranks(words, devices, plan));
  GC_TRY(read_functions(words, plan));
  GC_TRY(read_sizes(words, plan));
  char device[64] = "";
  gpucollDeviceName(0, device, sizeof device);
  GC_TRY_AS(const auto tables, sweep(plan));
  const std::string text = core::format_tuning(tables, fmt::format("gpucoll-tune {}, {}", library_version(), device));
  if (words.output.empty()) return tools::print(text);
  std::FILE* file = std::fopen(words.output.c_str(), "w");
  if (!file) return Status::error(Code::system, "cannot write %s: %s", words.output.c_str(), std::strerror(errno));
  std::fputs(text.c_str(), file);
  const bool written = !std::fflush(file) && !std::ferror(file);
  std::fclose(file);
  return written ? Status() : Status::error(Code::system, "could not write all of %s", words.output.c_str());
}

int main(int argc, char** argv) {
  Words words;
  CLI::App app(
      "Measures every algorithm and protocol of the collectives on this machine's devices and writes a tuning file, "
      "for the parameter tuning_file.",
      "gpucoll-tune");
  declare(app, words);
  auto text = tools::read_command_line(app, argc, argv);
  if (!text) return refuse(text.status().what());
  Status status = text->empty() ? run(words) : tools::print(*text);
  return status ? 0 : refuse(status.what());
}

}  // namespace
}  // namespace gpucoll::tune

int main(int argc, char** argv) { return gpucoll::tune::main(argc, argv); }
