// gpucoll-info: what this gpucoll is, what it runs on, and how it is set; and what it would choose (--explain).
//
// Exit status: 0, or 2 where an argument, a parameter or the device asked for is no good. --check: 0, 1 where there is
// a warning, 2 where there is a fault.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <utility>
#include <vector>

#include "base/params.h"
#include "common/command_line.h"
#include "common/output.h"
#include "gpu/device.h"
#include "info/check.h"
#include "info/explain.h"
#include "info/facts.h"
#include "info/hosts.h"

namespace gpucoll::info {
namespace {

constexpr int kCannot = 2;

int refuse(const std::string& sentence) {
  fmt::print(stderr, "gpucoll-info: {}\n", sentence);
  return kCannot;
}

int tell(const std::string& text) {
  Status told = tools::print(text);
  return told ? 0 : refuse(told.what());
}

// Under mpirun, what --mca sets arrives in the environment.
Status read_mca_values() {
  size_t count = 0;
  const ParamInfo* table = param_table(&count);
  Status first;
  const auto read = [&first](const char* name) {
    const char* text = std::getenv((std::string("OMPI_MCA_coll_gpucoll_") + name).c_str());
    if (!text) return;
    Status status = set_param(name, text, "mca");
    if (!status && first.ok()) first = status;
  };
  for (size_t i = 0; i < count; ++i) read(table[i].name);
  for (size_t i = 0; const char* old = old_param_name(i); ++i) read(old);
  return first;
}

// What --explain and the options that belong to it say.
struct ExplainWords {
  std::vector<std::string> what;  // function and size
  int n_ranks = 8;
  bool emu = false, gpu = false;
};

int run_explain(const ExplainWords& words) {
  auto bytes = parse_size(words.what[1].c_str());
  if (!bytes) return refuse(bytes.status().what());
  bool emulated = words.emu;
  if (!words.emu && !words.gpu) {
    auto platform = gpu::platform();
    emulated = platform && !std::strcmp((*platform)->name(), "emu");
  }
  auto text = explain({words.what[0], static_cast<uint64_t>(*bytes), words.n_ranks, emulated});
  if (!text) return refuse(text.status().what());
  return tell(*text);
}

void declare_explain(CLI::App& app, ExplainWords& words) {
  app.add_option("--explain", words.what,
                 "What a function of so many bytes would run as, with the times of all that it could, e.g. "
                 "--explain allreduce 1M; allgather and reduce_scatter: bytes of one rank's part")
      ->expected(2)
      ->type_name("FUNCTION BYTES");
  app.add_option("-n,--np", words.n_ranks, "Ranks, for --explain (-np as well)")->capture_default_str();
  auto* emu = app.add_flag("--emu", words.emu, "On emulated devices, for --explain");
  app.add_flag("--gpu", words.gpu, "On GPUs, for --explain; needs none")->excludes(emu);
}

// hosts: what to compare, without a look at this machine; empty: this machine.
Result<std::vector<Finding>> findings_of(const std::vector<std::string>& hosts) {
  if (hosts.empty()) return check_machine(gather());
  std::vector<nlohmann::ordered_json> all;
  for (const std::string& path : hosts) {
    GC_TRY_AS(auto its, read_hosts(path));
    std::move(its.begin(), its.end(), std::back_inserter(all));
  }
  return compare_hosts(all);
}

int run_check(const Status& mca, const std::vector<std::string>& hosts) {
  auto found = findings_of(hosts);
  if (!found) return refuse(found.status().what());
  auto& findings = *found;
  if (!mca && hosts.empty())
    findings.push_back({Grade::fault, mca.what(), "correct what --mca or the environment sets"});
  if (const int told = tell(as_text(findings, isatty(STDOUT_FILENO) && !std::getenv("NO_COLOR")))) return told;
  const Grade worst = worst_of(findings);
  return worst == Grade::fault ? kCannot : worst == Grade::warning ? 1 : 0;
}

int main(int argc, char** argv) {
  bool json = false, check = false;
  std::vector<std::string> hosts;
  ExplainWords words;
  // As mpirun has it; CLI would read -n p.
  for (int i = 1; i < argc; ++i)
    if (!std::strcmp(argv[i], "-np")) argv[i] = const_cast<char*>("--np");
  CLI::App app("Tells version, build, devices, topology, transports and parameters of gpucoll.", "gpucoll-info");
  app.set_version_flag("--version", std::string("gpucoll-info ") + library_version());
  app.add_flag("--json", json, "Prints JSON");
  auto* checks =
      app.add_flag("--check", check,
                   "Says what is wrong with this machine, and how to mend it; exit status 1: a warning, 2: a fault");
  app.add_option("--hosts", hosts,
                 "With --check: says instead in what hosts differ that must be alike, from what --json has written "
                 "there; files, or folders as of mpirun --output-filename")
      ->needs(checks)
      ->type_name("PATH...");
  declare_explain(app, words);
  auto text = tools::read_command_line(app, argc, argv);
  if (!text) return refuse(text.status().what());
  if (!text->empty()) return tell(*text);
  Status mca = read_mca_values();
  if (check) return run_check(mca, hosts);
  if (!words.what.empty()) {
    if (!mca) return refuse(mca.what());
    return params_status() ? run_explain(words) : refuse(params_status().what());
  }
  auto facts = gather();
  const int told =
      tell(json ? facts.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n" : as_text(facts));
  if (told) return told;
  if (!mca) return refuse(mca.what());
  if (facts.contains("problem")) return refuse(facts["problem"].get<std::string>());
  return facts["platform"].contains("problem") ? refuse(facts["platform"]["problem"].get<std::string>()) : 0;
}

}  // namespace
}  // namespace gpucoll::info

int main(int argc, char** argv) { return gpucoll::info::main(argc, argv); }
