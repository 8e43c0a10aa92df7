// gpucoll-info: what this gpucoll is, what it runs on, and how it is set.
//
// Exit status: 0, or 2 where an argument, a parameter or the device asked for is no good.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdlib>

#include "base/params.h"
#include "info/facts.h"

namespace gpucoll::info {
namespace {

constexpr int kCannot = 2;

int refuse(const std::string& sentence) {
  fmt::print(stderr, "gpucoll-info: {}\n", sentence);
  return kCannot;
}

// Under mpirun, what --mca sets arrives in the environment.
Status read_mca_values() {
  size_t count = 0;
  const ParamInfo* table = param_table(&count);
  Status first;
  for (size_t i = 0; i < count; ++i) {
    const char* text = std::getenv((std::string("OMPI_MCA_coll_gpucoll_") + table[i].name).c_str());
    if (!text) continue;
    Status status = set_param(table[i].name, text, "mca");
    if (!status && first.ok()) first = status;
  }
  return first;
}

int main(int argc, char** argv) {
  bool json = false;
  CLI::App app("Tells version, build, devices, topology, transports and parameters of gpucoll.", "gpucoll-info");
  app.set_version_flag("--version", std::string("gpucoll-info ") + library_version());
  app.add_flag("--json", json, "As JSON");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    return 0;
  } catch (const CLI::CallForVersion& version) {
    fmt::print("{}\n", version.what());
    return 0;
  } catch (const CLI::ParseError& error) {
    return refuse(std::string(error.what()) + "; see gpucoll-info --help");
  }
  Status mca = read_mca_values();
  auto facts = gather();
  fmt::print(
      "{}", json ? facts.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n" : as_text(facts));
  std::fflush(stdout);
  if (!mca) return refuse(mca.what());
  if (facts.contains("problem")) return refuse(facts["problem"].get<std::string>());
  return facts["platform"].contains("problem") ? refuse(facts["platform"]["problem"].get<std::string>()) : 0;
}

}  // namespace
}  // namespace gpucoll::info

int main(int argc, char** argv) { return gpucoll::info::main(argc, argv); }
