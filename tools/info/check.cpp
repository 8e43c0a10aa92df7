#include "info/check.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "info/command.h"

namespace gpucoll::info {
namespace {

using Findings = std::vector<Finding>;

// The lines in which gpucoll, or who loads it, says why Open MPI does without it.
std::string reasons_of_plugin() {
  std::string errors, reasons;
  run_command("ompi_info --parsable 2>&1 >/dev/null", &errors);
  std::istringstream lines(errors);
  for (std::string line; std::getline(lines, line);)
    if (line.find("gpucoll") != std::string::npos) reasons += ": " + line;
  return reasons;
}

Finding check_plugin() {
  std::string components;
  if (!run_command("ompi_info --parsable 2>/dev/null", &components))
    return {Grade::warning, "ompi_info does not run, so it cannot be checked whether mpirun finds the plugin",
            "install Open MPI, or put its bin folder into PATH"};
  if (components.find("mca:coll:gpucoll:") != std::string::npos)
    return {Grade::good, "Open MPI finds the plugin coll/gpucoll", ""};
  return {Grade::fault, "Open MPI does not find the plugin coll/gpucoll" + reasons_of_plugin(),
          "export OMPI_MCA_mca_base_component_path=PREFIX/lib/openmpi:Open MPI's own folder of plugins (README.md)"};
}

void check_devices(const nlohmann::ordered_json& facts, Findings& found) {
  const auto& platform = facts["platform"];
  if (platform.contains("problem"))
    return found.push_back({Grade::fault, platform["problem"].get<std::string>(), "see the sentence"});
  const auto name = platform.value("name", std::string());
  if (name != "emu") return found.push_back({Grade::good, "collectives run on GPUs", ""});
  const bool asked = std::getenv("GPUCOLL_DEVICE") || std::getenv("OMPI_MCA_coll_gpucoll_device");
  const std::string why = facts.contains("gpus") ? facts["gpus"].value("problem", std::string()) : "";
  found.push_back({asked ? Grade::note : Grade::warning,
                   "collectives run on the emulated device" + (why.empty() ? "" : ": " + why),
                   asked ? "" : "install a driver, and configure gpucoll --with-cuda; or set GPUCOLL_DEVICE=emu"});
}

Finding check_network(const nlohmann::ordered_json& network) {
  if (network.contains("problem")) return {Grade::fault, network["problem"].get<std::string>(), "see the sentence"};
  std::string places;
  bool reached = false;
  for (const auto& each : network["addresses"]) {
    reached |= !each["loopback"].get<bool>();
    places += fmt::format("{}{} ({})", places.empty() ? "" : " and ", each["address"].get<std::string>(),
                          each["interface"].get<std::string>());
  }
  if (reached) return {Grade::good, "other nodes reach this one at " + places, ""};
  return {Grade::note, "no other node reaches this one: it listens at the loopback alone, " + places, ""};
}

void check_interfaces(const nlohmann::ordered_json& network, Findings& found) {
  for (const auto& name : network.value("unused_names", nlohmann::ordered_json::array()))
    found.push_back({Grade::note,
                     fmt::format("parameter socket_ifname: '{}' fits no network interface of this host that is up",
                                 name.get<std::string>()),
                     ""});
}

Finding check_shared_memory() {
  constexpr double kMiB = 1 << 20, kLeast = 64;
  struct statvfs info = {};
  if (statvfs("/dev/shm", &info) != 0)
    return {Grade::warning, "there is no /dev/shm, which Open MPI uses inside a node", "mount a tmpfs there"};
  const double room = static_cast<double>(info.f_bavail) * static_cast<double>(info.f_frsize) / kMiB;
  const std::string what = fmt::format("/dev/shm has room for {:.0f} MiB", room);
  if (room >= kLeast) return {Grade::good, what, ""};
  return {Grade::warning, what, "remove what lies there, or start the container with --shm-size=1g"};
}

Finding check_limit(int resource, const char* name, const char* unit, rlim_t least, Grade grade) {
  rlimit limit = {};
  getrlimit(static_cast<__rlimit_resource_t>(resource), &limit);
  const bool any = limit.rlim_cur == RLIM_INFINITY;
  const std::string what =
      fmt::format("ulimit {} is {}", name, any ? "unlimited" : std::to_string(limit.rlim_cur) + unit);
  if (any || limit.rlim_cur >= least) return {Grade::good, what, ""};
  return {grade, what, "raise it in /etc/security/limits.conf, or for daemons in their systemd units"};
}

bool has_rdma() {
  std::error_code none;
  const std::filesystem::directory_iterator devices("/sys/class/infiniband", none);
  return !none && devices != std::filesystem::directory_iterator();
}

// Returns whether no limit on locked memory holds for this process (CAP_IPC_LOCK).
bool may_lock_any() {
  constexpr int kIpcLock = 14;
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind("CapEff:", 0) == 0) return std::strtoull(line.c_str() + 7, nullptr, 16) >> kIpcLock & 1;
  return false;
}

const char* word_of(Grade grade) {
  constexpr const char* kWords[] = {"ok", "note", "warning", "fault"};
  return kWords[static_cast<size_t>(grade)];
}

}  // namespace

Findings check_machine(const nlohmann::ordered_json& facts) {
  Findings found;
  if (facts.contains("problem"))
    found.push_back({Grade::fault, facts["problem"].get<std::string>(), "correct that variable of the environment"});
  check_devices(facts, found);
  for (const auto& transport : facts.value("transports", nlohmann::ordered_json::array()))
    if (transport.value("name", "") == "p2p" && !transport.value("usable", true))
      found.push_back({Grade::warning, "devices do not reach each other's memory: data go through host memory (shm)",
                       "see `nvidia-smi topo -p2p r`; in a virtual machine, pass the GPUs through with their links"});
  found.push_back(check_plugin());
  found.push_back(check_shared_memory());
  found.push_back(check_limit(RLIMIT_NOFILE, "-n (open files)", "", 1024, Grade::warning));
  if (facts.contains("network")) {
    found.push_back(check_network(facts["network"]));
    check_interfaces(facts["network"], found);
  }
  const bool rdma = has_rdma();
  found.push_back({rdma ? Grade::good : Grade::note,
                   rdma ? "there is an RDMA device" : "there is no RDMA device: between nodes data go over TCP", ""});
  constexpr rlim_t kLocked = rlim_t{1} << 30;
  const bool limited = rdma && !may_lock_any();
  found.push_back(check_limit(RLIMIT_MEMLOCK, "-l (locked memory)", " bytes", limited ? kLocked : 0, Grade::fault));
  return found;
}

Grade worst_of(const Findings& findings) {
  Grade worst = Grade::good;
  for (const Finding& finding : findings) worst = std::max(worst, finding.grade);
  return worst;
}

std::string as_text(const Findings& findings, bool color) {
  constexpr int kColors[] = {32, 36, 33, 31};
  std::string text;
  for (const Finding& finding : findings) {
    std::string word = fmt::format("{:8}", word_of(finding.grade));
    if (color) word = fmt::format("\033[{}m{}\033[0m", kColors[static_cast<size_t>(finding.grade)], word);
    text += word + finding.what + "\n";
    if (!finding.cure.empty()) text += "        to fix it: " + finding.cure + "\n";
  }
  return text;
}

}  // namespace gpucoll::info
