// gpucoll-info for people: about 100 columns.
#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <utility>
#include <vector>

#include "base/params.h"
#include "info/facts.h"
#include "topo/link.h"

namespace gpucoll::info {
namespace {

using Json = nlohmann::ordered_json;

std::string word(const Json& value) { return value.get<std::string>(); }

// Lines of at most `width` characters, each behind `indent` blanks.
std::string wrap(const std::string& text, size_t indent, size_t width) {
  std::istringstream words(text);
  std::string out, line, next;
  while (words >> next) {
    if (!line.empty() && line.size() + 1 + next.size() > width) {
      out += fmt::format("{:{}}{}\n", "", indent, line);
      line.clear();
    }
    line += (line.empty() ? "" : " ") + next;
  }
  return line.empty() ? out : out + fmt::format("{:{}}{}\n", "", indent, line);
}

std::string indented(const std::string& text) {
  std::istringstream lines(text);
  std::string out, line;
  while (std::getline(lines, line)) out += "  " + line + "\n";
  return out;
}

std::string build_text(const Json& build) {
  std::string cuda = build["cuda"].get<bool>() ? "yes, for architectures " + word(build["cuda_architectures"]) : "no";
  std::string sanitizers = word(build["sanitizers"]);
  return fmt::format("Build\n  CUDA          {}\n  sanitizers    {}\n  compiler      {}\n", cuda,
                     sanitizers.empty() ? "none" : sanitizers, word(build["compiler"]));
}

// "NVLink to 1, 2 (LL128); PCIe to 3": of each kind the devices at its other end.
std::string links_text(const Json& links) {
  std::vector<std::pair<std::string, std::string>> kinds;
  for (const Json& link : links) {
    const std::string kind = word(link["kind"]), end = std::to_string(link["device"].get<int>());
    if (kind == topo::name(topo::Link::same_device)) continue;
    const std::string head = kind + (link["ll128"].get<bool>() ? " with LL128" : " without LL128");
    const auto known = std::find_if(kinds.begin(), kinds.end(), [&](const auto& k) { return k.first == head; });
    if (known == kinds.end())
      kinds.emplace_back(head, end);
    else
      known->second += ", " + end;
  }
  std::string text;
  for (const auto& [head, ends] : kinds) text += fmt::format("{}{} to {}", text.empty() ? "" : "; ", head, ends);
  return text.empty() ? "none" : text;
}

std::string device_text(const Json& device) {
  int index = device["index"];
  if (device.contains("problem")) return fmt::format("  {:<3} {}\n", index, word(device["problem"]));
  std::string reaches;
  for (const Json& peer : device["reaches"])
    reaches += fmt::format("{}{}", reaches.empty() ? "" : ", ", peer.get<int>());
  std::string bus = word(device["bus"]);
  return fmt::format(
      "  {:<3} {}{}\n      uuid {}, reaches directly: {}\n      links: {}\n      {} channels of {} threads, ring "
      "buffers of "
      "{}, {}\n",
      index, word(device["name"]), bus.empty() ? "" : " at " + bus, word(device["uuid"]),
      reaches.empty() ? "none" : reaches, links_text(device["links"]), device["channels"].get<int>(),
      device["threads"].get<int>(), format_size(device["buffer_bytes"].get<int64_t>()),
      device["shared_between_processes"].get<bool>() ? "kernels of several processes side by side"
                                                     : "one process's kernels at a time");
}

std::string devices_text(const Json& facts) {
  std::string out = "\nDevices\n";
  const Json& platform = facts["platform"];
  if (platform.contains("problem")) return out + wrap("none: " + word(platform["problem"]), 2, 98);
  if (word(platform["name"]) == "cuda") {
    out += fmt::format("  Collectives run on GPUs; {} to be seen.\n", facts["gpus"]["count"].get<int>());
  } else {
    const Json& gpus = facts["gpus"];
    std::string why = gpus.contains("problem") ? word(gpus["problem"]) : "the parameter device says emu";
    out += wrap("Collectives run on the emulated device, on the CPU: " + why + ".", 2, 98);
  }
  const Json& devices = facts["devices"];
  if (word(platform["name"]) == "emu" && devices.size() > 1)  // all alike
    return out + device_text(devices[0]) +
           fmt::format("  and {} more like it (parameter emu_devices)\n", devices.size() - 1);
  for (const Json& device : devices) out += device_text(device);
  return out;
}

std::string transports_text(const Json& transports) {
  std::string out = "\nTransports\n";
  for (const Json& t : transports)
    out +=
        fmt::format("  {:<5} {}\n", word(t["name"]), t["usable"].get<bool>() ? "usable" : "no: " + word(t["problem"]));
  return transports.empty() ? out + "  none without a device\n" : out;
}

std::string network_text(const Json& network) {
  std::string out = "\nNetwork\n";
  if (network.contains("problem")) return out + wrap(word(network["problem"]), 2, 98);
  for (const Json& each : network["addresses"])
    out += fmt::format("  listens at {} of {}\n", word(each["address"]), word(each["interface"]));
  return network["addresses"].empty() ? out + "  no address\n" : out;
}

std::string parameters_text(const Json& parameters) {
  std::string out =
      "\nParameters (x is --mca coll_gpucoll_x under mpirun, GPUCOLL_X in the environment)\n"
      "  name                   value        source       level\n";
  for (const Json& p : parameters) {
    out += fmt::format("  {:<22} {:<12} {:<12} {}\n", word(p["name"]), word(p["value"]), word(p["source"]),
                       word(p["level"]));
    std::string help = word(p["help"]);
    if (word(p["type"]) != "text") help += " (" + word(p["accepted"]) + ")";
    if (p["equal_on_all_ranks"].get<bool>()) help += "; equal on all ranks";
    out += wrap(help, 6, 94);
  }
  return out;
}

}  // namespace

std::string as_text(const Json& facts) {
  std::string out = fmt::format("gpucoll {}\n\n", word(facts["version"]));
  out += build_text(facts["build"]);
  out += devices_text(facts);
  out += "\nTopology\n" + indented(word(facts["topology"]));
  out += transports_text(facts["transports"]);
  out += network_text(facts["network"]);
  return out + parameters_text(facts["parameters"]);
}

}  // namespace gpucoll::info
