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

// Where this build's plugin was to be installed, where the plugins of the Open MPI that it was built for are, and that
// one's version: "unknown", and no folders, where configure has found none.
constexpr const char* kPluginFolder = GC_PLUGIN_FOLDER;
constexpr const char* kOpenMpiFolder = GC_OPEN_MPI_FOLDER;
constexpr const char* kOpenMpiVersion = GC_OPEN_MPI_VERSION;
constexpr const char* kPath = "OMPI_MCA_mca_base_component_path";

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

// Returns "4.1" of "4.1.4".
std::string series_of(const std::string& version) {
  const size_t major = version.find('.');
  return version.substr(0, major == std::string::npos ? major : version.find('.', major + 1));
}

// Says how Open MPI comes to find the plugin.
std::string cure_of_missing_plugin() {
  const std::string folder = kPluginFolder, path = variable(kPath);
  if (access((folder + "/mca_coll_gpucoll.so").c_str(), R_OK) != 0)
    return fmt::format(
        "install gpucoll (make install); or, if it was moved, export {}=FOLDER:{}, where FOLDER has "
        "mca_coll_gpucoll.so",
        kPath, kOpenMpiFolder);
  if ((":" + path + ":").find(":" + folder + ":") != std::string::npos || (folder == kOpenMpiFolder && path.empty()))
    return fmt::format(
        "see why {}/mca_coll_gpucoll.so cannot be loaded: ldd and `ompi_info --mca "
        "mca_base_component_show_load_errors 1` say it",
        folder);
  if (folder == kOpenMpiFolder)
    return fmt::format("unset {}: the plugin is among Open MPI's own, in {}", kPath, folder);
  return fmt::format("export {}={}:{}", kPath, folder, kOpenMpiFolder);
}

Finding check_missing_plugin(const std::string& version) {
  const std::string what = "Open MPI does not find the plugin coll/gpucoll" + reasons_of_plugin();
  const bool are_known = version != "none" && std::string_view(kOpenMpiVersion) != "unknown";
  if (are_known && series_of(version) != series_of(kOpenMpiVersion))
    return {Grade::fault,
            fmt::format("{}; this is Open MPI {}, and gpucoll was built for {}", what, version, kOpenMpiVersion),
            fmt::format("put the bin folder of an Open MPI {} first into PATH, or build gpucoll for this one",
                        series_of(kOpenMpiVersion))};
  return {Grade::fault, what, cure_of_missing_plugin()};
}

// Returns the value of a parameter of Open MPI, from wherever it is set; "" where there is none.
std::string value_of(const std::string& parameters, const std::string& name) {
  const std::string before = ":param:" + name + ":value:";
  const size_t at = parameters.find(before);
  if (at == std::string::npos) return "";
  const size_t begin = at + before.size();
  return parameters.substr(begin, parameters.find('\n', begin) - begin);
}

// Returns whether the parameter coll lets Open MPI use gpucoll: it is empty, or a list, or ^ and a list of what is out.
bool lets_use(const std::string& coll) {
  const bool is_out = coll.rfind('^', 0) == 0;
  const bool is_named = ("," + coll.substr(is_out ? 1 : 0) + ",").find(",gpucoll,") != std::string::npos;
  return coll.empty() || is_named != is_out;
}

Finding check_plugin(const std::string& version) {
  std::string components, parameters;
  if (!run_command("ompi_info --parsable 2>/dev/null", &components))
    return {Grade::warning, "ompi_info does not run, so it cannot be checked whether mpirun finds the plugin",
            "install Open MPI, or put its bin folder into PATH"};
  if (components.find("mca:coll:gpucoll:") == std::string::npos) return check_missing_plugin(version);
  run_command("ompi_info --parsable --param coll all --level 9 2>/dev/null", &parameters);
  const std::string unused = "Open MPI finds the plugin coll/gpucoll, but does not use it: ";
  const std::string coll = value_of(parameters, "coll"), priority = value_of(parameters, "coll_gpucoll_priority");
  if (!lets_use(coll))
    return {
        Grade::warning, fmt::format("{}its parameter coll is '{}'", unused, coll),
        "unset OMPI_MCA_coll, or correct coll in openmpi-mca-params.conf; mpirun --mca coll gpucoll overrides both"};
  if (priority.rfind('-', 0) == 0)
    return {Grade::warning, fmt::format("{}the parameter coll_gpucoll_priority is {}", unused, priority),
            "leave it out, or set it to 0 or more"};
  return {Grade::good, "Open MPI finds the plugin coll/gpucoll", ""};
}

// Finds a mpirun that is of another MPI than ompi_info, of which `version` is.
void check_launcher(const std::string& version, Findings& found) {
  std::string text;
  if (!run_command("mpirun --version 2>/dev/null", &text)) return;
  const std::string line = text.substr(0, text.find('\n'));
  const char* const cure = "put the bin folder of one Open MPI first into PATH; on Debian, call mpirun.openmpi";
  if (line.find("Open MPI") == std::string::npos)
    return found.push_back({Grade::warning, fmt::format("mpirun is not Open MPI's: it says '{}'", line), cure});
  if (version != "none" && line.find(version) == std::string::npos)
    found.push_back(
        {Grade::warning, fmt::format("'{}' comes with another Open MPI than ompi_info {}", line, version), cure});
}

// Says what to do where the collectives run on the emulated device.
const char* cure_of_no_gpu(const nlohmann::ordered_json& facts) {
  if (!facts["build"].value("cuda", false))
    return "build gpucoll where CUDA is installed (configure --with-cuda); or set GPUCOLL_DEVICE=emu, to use the "
           "emulated device on purpose";
  return "see that nvidia-smi lists the GPUs (in a container: docker run --gpus all); or set GPUCOLL_DEVICE=emu, "
         "to use the emulated device on purpose";
}

void check_devices(const nlohmann::ordered_json& facts, Findings& found) {
  const auto& platform = facts["platform"];
  if (platform.contains("problem")) return found.push_back({Grade::fault, platform["problem"].get<std::string>(), ""});
  const auto name = platform.value("name", std::string());
  if (name != "emu") return found.push_back({Grade::good, "collectives run on GPUs", ""});
  const bool asked = std::getenv("GPUCOLL_DEVICE") || std::getenv("OMPI_MCA_coll_gpucoll_device");
  const std::string why = facts.contains("gpus") ? facts["gpus"].value("problem", std::string()) : "";
  found.push_back({asked ? Grade::note : Grade::warning,
                   "collectives run on the emulated device" + (why.empty() ? "" : ": " + why),
                   asked ? "" : cure_of_no_gpu(facts)});
}

// Returns a list in words, of the addresses that are of the loopback, or of those that are not.
std::string places_of(const nlohmann::ordered_json& addresses, bool loopback) {
  std::string places;
  for (const auto& each : addresses)
    if (each["loopback"].get<bool>() == loopback)
      places += fmt::format("{}{} ({})", places.empty() ? "" : " and ", each["address"].get<std::string>(),
                            each["interface"].get<std::string>());
  return places;
}

Finding check_network(const nlohmann::ordered_json& network) {
  if (network.contains("problem")) return {Grade::fault, network["problem"].get<std::string>(), ""};
  const std::string reached = places_of(network["addresses"], false), loopback = places_of(network["addresses"], true);
  if (!reached.empty()) return {Grade::good, "other nodes reach this one at " + reached, ""};
  const std::string what = "no other node reaches this one: ";
  if (loopback.empty()) return {Grade::note, what + "no network interface is up", ""};
  return {Grade::note, what + "it listens at the loopback alone, " + loopback, ""};
}

void check_interfaces(const nlohmann::ordered_json& network, Findings& found) {
  for (const auto& name : network.value("unused_names", nlohmann::ordered_json::array()))
    found.push_back({Grade::note,
                     fmt::format("parameter socket_ifname: '{}' fits no network interface of this host that is up",
                                 name.get<std::string>()),
                     ""});
  const std::string others = places_of(network.value("others", nlohmann::ordered_json::array()), false);
  if (!others.empty())
    found.push_back({Grade::note,
                     "this host also has " + others +
                         "; to connect through another interface, set the parameter "
                         "socket_ifname",
                     ""});
}

Finding check_shared_memory() {
  constexpr double kMiB = 1 << 20, kLeast = 64;
  struct statvfs info = {};
  if (statvfs("/dev/shm", &info) != 0)
    return {Grade::warning, "there is no /dev/shm, which Open MPI uses inside a node",
            "mount a tmpfs there: mount -t tmpfs none /dev/shm"};
  const double room = static_cast<double>(info.f_bavail) * static_cast<double>(info.f_frsize) / kMiB;
  const std::string what = fmt::format("/dev/shm has room for {:.0f} MiB", room);
  if (room >= kLeast) return {Grade::good, what, ""};
  return {Grade::warning, what + ", which may be too little for Open MPI's messages inside a node",
          "remove what lies there, make it larger (mount -o remount,size=1g /dev/shm), or start the container with "
          "docker run --shm-size=1g"};
}

// A limit as the shell's ulimit counts it, and how many of its units are needed.
struct Limit {
  __rlimit_resource resource;
  const char *name, *unit;
  rlim_t unit_bytes, least;
  Grade grade;
  const char *in_systemd, *in_docker;
};

Finding check_limit(const Limit& limit) {
  rlimit now = {};
  getrlimit(limit.resource, &now);
  if (now.rlim_cur == RLIM_INFINITY) return {Grade::good, fmt::format("ulimit {} is unlimited", limit.name), ""};
  const rlim_t has = now.rlim_cur / limit.unit_bytes;
  const std::string what = fmt::format("ulimit {} is {}{}", limit.name, has, limit.unit);
  if (has >= limit.least) return {Grade::good, what, ""};
  return {limit.grade, fmt::format("{}; {}{} or more are needed", what, limit.least, limit.unit),
          fmt::format("raise it in /etc/security/limits.conf; for daemons by {} in their systemd units; in a container "
                      "by docker run --ulimit {}",
                      limit.in_systemd, limit.in_docker)};
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
  if (facts.contains("problem")) found.push_back({Grade::fault, facts["problem"].get<std::string>(), ""});
  check_devices(facts, found);
  for (const auto& transport : facts.value("transports", nlohmann::ordered_json::array()))
    if (transport.value("name", "") == "p2p" && !transport.value("usable", true))
      found.push_back({Grade::warning, "devices do not reach each other's memory: data go through host memory (shm)",
                       "see `nvidia-smi topo -p2p r`; in a virtual machine, pass the GPUs through with their links"});
  const std::string open_mpi = facts.value("open_mpi", std::string("none"));
  found.push_back(check_plugin(open_mpi));
  check_launcher(open_mpi, found);
  found.push_back(check_shared_memory());
  found.push_back(
      check_limit({RLIMIT_NOFILE, "-n (open files)", "", 1, 1024, Grade::warning, "LimitNOFILE", "nofile=65536"}));
  if (facts.contains("network")) {
    found.push_back(check_network(facts["network"]));
    check_interfaces(facts["network"], found);
  }
  const bool rdma = has_rdma();
  found.push_back({rdma ? Grade::good : Grade::note,
                   rdma ? "there is an RDMA device" : "there is no RDMA device: between nodes data go over TCP", ""});
  const rlim_t locked = rdma && !may_lock_any() ? rlim_t{1} << 20 : 0;  // KiB
  found.push_back(check_limit(
      {RLIMIT_MEMLOCK, "-l (locked memory)", " KiB", 1024, locked, Grade::fault, "LimitMEMLOCK", "memlock=-1"}));
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
