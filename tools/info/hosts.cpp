#include "info/hosts.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <utility>

namespace gpucoll::info {
namespace {

using Json = nlohmann::ordered_json;
using Findings = std::vector<Finding>;

// Each value, and the hosts that have it, in the order in which they were named.
using Values = std::vector<std::pair<std::string, std::vector<std::string>>>;

Values values_of(const std::vector<Json>& hosts, const std::function<std::string(const Json&)>& value_of) {
  Values values;
  for (const Json& host : hosts) {
    const std::string value = value_of(host), name = host.value("host", "a host without a name");
    auto known = std::find_if(values.begin(), values.end(), [&](const auto& each) { return each.first == value; });
    if (known == values.end()) known = values.insert(values.end(), {value, {}});
    if (std::find(known->second.begin(), known->second.end(), name) == known->second.end())
      known->second.push_back(name);
  }
  return values;
}

// "4.1.4 on a, b and 3 more": of many hosts the first ones.
std::string text_of(const std::pair<std::string, std::vector<std::string>>& value) {
  constexpr size_t kShown = 4;
  const auto& names = value.second;
  std::string list;
  for (size_t i = 0; i < std::min(kShown, names.size()); ++i) list += (i ? ", " : "") + names[i];
  if (names.size() > kShown) list += fmt::format(" and {} more", names.size() - kShown);
  return fmt::format("{} on {}", value.first.empty() ? "nothing" : value.first, list);
}

void compare(Findings& found, const std::vector<Json>& hosts, const std::string& what, const Finding& differs,
             const std::function<std::string(const Json&)>& value_of) {
  const Values values = values_of(hosts, value_of);
  if (values.size() < 2) return;
  std::string list;
  for (const auto& value : values) list += (list.empty() ? "" : "; ") + text_of(value);
  found.push_back({differs.grade, fmt::format("{} differs between hosts: {}", what, list), differs.cure});
}

std::string text_at(const Json& host, const char* name) { return host.value(name, std::string("unknown")); }

std::string platform_of(const Json& host) {
  const Json platform = host.value("platform", Json::object());
  return platform.value("name", platform.value("problem", std::string("unknown")));
}

std::string devices_of(const Json& host) {
  Values kinds;
  for (const Json& device : host.value("devices", Json::array())) {
    const std::string name = device.value("name", "unknown");
    auto known = std::find_if(kinds.begin(), kinds.end(), [&](const auto& each) { return each.first == name; });
    if (known == kinds.end()) known = kinds.insert(kinds.end(), {name, {}});
    known->second.emplace_back();
  }
  std::string text;
  for (const auto& kind : kinds)
    text += fmt::format("{}{} x {}", text.empty() ? "" : ", ", kind.second.size(), kind.first);
  return text;
}

std::string parameter_of(const Json& host, const std::string& name) {
  for (const Json& parameter : host.value("parameters", Json::array()))
    if (parameter.value("name", "") == name) return parameter.value("value", "");
  return "unknown";
}

void compare_parameters(Findings& found, const std::vector<Json>& hosts) {
  for (const Json& parameter : hosts[0].value("parameters", Json::array())) {
    if (!parameter.value("equal_on_all_ranks", false)) continue;
    const std::string name = parameter.value("name", "");
    compare(found, hosts, "the parameter " + name,
            {Grade::fault, "", "set it to one value on all hosts, as mpirun's --mca does"},
            [&](const Json& host) { return parameter_of(host, name); });
  }
}

// Returns whether other hosts reach this one by IPv4, and by IPv6.
std::pair<bool, bool> reached_by(const Json& host) {
  std::pair<bool, bool> reached;
  const Json network = host.value("network", Json::object());
  for (const Json& each : network.value("addresses", Json::array())) {
    const bool is_ipv6 = each.value("address", "").find(':') != std::string::npos;
    if (!each.value("loopback", false)) (is_ipv6 ? reached.second : reached.first) = true;
  }
  return reached;
}

// Two hosts connect by a family that both have.
void compare_networks(Findings& found, const std::vector<Json>& hosts) {
  for (size_t i = 0; i < hosts.size(); ++i)
    for (size_t j = i + 1; j < hosts.size(); ++j) {
      const auto one = reached_by(hosts[i]), other = reached_by(hosts[j]);
      const std::string names = text_at(hosts[i], "host") + " and " + text_at(hosts[j], "host");
      if ((one.first && other.first) || (one.second && other.second)) continue;
      if (text_at(hosts[i], "host") == text_at(hosts[j], "host")) continue;
      found.push_back({Grade::fault,
                       names + " have no address of one kind, IPv4 or IPv6, at which they reach each other",
                       "see the network of each in gpucoll-info; set socket_ifname and socket_family there"});
      return;
    }
}

Status read_file(const std::filesystem::path& path, std::vector<Json>& hosts) {
  std::ifstream file(path);
  if (!file) return Status::error(Code::invalid_usage, "%s cannot be read", path.c_str());
  while (file >> std::ws && !file.eof()) {
    Json host;
    try {
      file >> host;
    } catch (const Json::exception&) {
      host = nullptr;
    }
    if (!host.is_object() || !host.contains("parameters"))
      return Status::error(Code::invalid_usage, "%s is not what gpucoll-info --json writes", path.c_str());
    hosts.push_back(std::move(host));
  }
  return {};
}

bool has_json(const std::filesystem::path& path) { return path.filename() == "stdout" || path.extension() == ".json"; }

}  // namespace

Result<std::vector<Json>> read_hosts(const std::string& path) {
  std::error_code error;
  std::vector<std::filesystem::path> files;
  if (!std::filesystem::is_directory(path, error))
    files = {path};
  else
    for (const auto& each : std::filesystem::recursive_directory_iterator(path, error))
      if (each.is_regular_file(error) && has_json(each.path())) files.push_back(each.path());
  std::sort(files.begin(), files.end());
  std::vector<Json> hosts;
  for (const auto& file : files) GC_TRY(read_file(file, hosts));
  if (hosts.empty()) return Status::error(Code::invalid_usage, "%s has nothing of gpucoll-info --json", path.c_str());
  return hosts;
}

Findings compare_hosts(const std::vector<Json>& hosts) {
  Findings found;
  compare(found, hosts, "gpucoll's version", {Grade::fault, "", "install one version on all hosts"},
          [](const Json& host) { return text_at(host, "version"); });
  compare(found, hosts, "Open MPI's version", {Grade::fault, "", "install one version on all hosts"},
          [](const Json& host) { return text_at(host, "open_mpi"); });
  compare(found, hosts, "what collectives run on", {Grade::fault, "", "see gpucoll-info --check on each host"},
          platform_of);
  compare(found, hosts, "the driver", {Grade::note, "", ""}, [](const Json& host) { return text_at(host, "driver"); });
  compare(found, hosts, "what devices there are", {Grade::note, "", ""}, devices_of);
  compare_parameters(found, hosts);
  compare_networks(found, hosts);
  if (!found.empty()) return found;
  const auto names = values_of(hosts, [](const Json&) { return std::string(); })[0].second;
  if (names.size() < 2)
    return {{Grade::note, "all is from one host, " + names[0] + ": there is nothing to compare", ""}};
  return {{Grade::good,
           fmt::format("versions, devices, parameters and kinds of addresses fit together on {} hosts", names.size()),
           ""}};
}

}  // namespace gpucoll::info
