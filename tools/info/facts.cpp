#include "info/facts.h"

#include <fmt/format.h>

#include <fstream>
#include <regex>
#include <set>

#include "base/params.h"
#include "base/status.h"
#include "core/peer/device_link.h"
#include "core/peer/memory_port.h"
#include "gpu/device.h"
#include "info/command.h"
#include "net/bootstrap/interfaces.h"
#include "net/transport.h"
#include "topo/node.h"
#include "topo/topology.h"

namespace gpucoll::info {
namespace {

using Json = nlohmann::ordered_json;

// Returns the version of the Open MPI that PATH finds first, as mpirun is found.
std::string open_mpi_version() {
  std::string text;
  const bool ran = run_command("ompi_info --version 2>/dev/null", &text);
  std::smatch found;
  return ran && std::regex_search(text, found, std::regex("Open MPI v(\\S+)")) ? found[1].str() : "none";
}

std::string driver_version() {
  std::ifstream file("/proc/driver/nvidia/version");
  std::string line;
  std::getline(file, line);
  std::smatch found;
  return std::regex_search(line, found, std::regex("\\s(\\d+\\.\\d[\\d.]*)")) ? found[1].str() : "none";
}

Json build_facts() {
  const bool cuda = gpu::cuda_platform() != nullptr;
  return {{"cuda", cuda},
          {"cuda_architectures", cuda ? GC_CUDA_ARCHS : ""},
          {"sanitizers", GC_SANITIZER_NAMES},
          {"compiler", __VERSION__}};
}

// GPUs, whether or not the collectives run on them.
Json gpu_facts() {
  gpu::Platform* cuda = gpu::cuda_platform();
  if (!cuda) return {{"count", 0}, {"problem", "gpucoll was built without CUDA"}};
  auto count = cuda->device_count();
  if (!count) return {{"count", 0}, {"problem", count.status().what()}};
  return {{"count", *count}};
}

std::string uuid_text(const uint8_t* uuid) {
  std::string text;
  for (int i = 0; i < 16; ++i)
    text += fmt::format("{}{:02x}", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
  return text;
}

// Devices that `device` reaches directly, itself included.
Json reachable(gpu::Platform& platform, gpu::Device& device, int count) {
  Json indices = Json::array();
  for (int i = 0; i < count; ++i)
    if (auto peer = platform.open(i); peer && device.can_reach((*peer)->identity())) indices.push_back(i);
  return indices;
}

// Finds what connects `device` with each of all devices, itself included.
Json links_of(gpu::Platform& platform, gpu::Device& device, int count) {
  Json links = Json::array();
  for (int i = 0; i < count; ++i) {
    const auto peer = platform.open(i);
    if (!peer) continue;
    const topo::Link link = core::link_between(device, (*peer)->identity());
    links.push_back({{"device", i},
                     {"kind", topo::name(link)},
                     {"keeps_128_bytes_whole", topo::keeps_lines_whole(link)},
                     {"ll128", device.keeps_lines_whole() && core::takes_lines(link)}});
  }
  return links;
}

Json device_facts(gpu::Platform& platform, int index, int count) {
  auto device = platform.open(index);
  if (!device) return {{"index", index}, {"problem", device.status().what()}};
  const gpu::Identity& who = (*device)->identity();
  gpu::Device::Defaults defaults = (*device)->defaults();
  return {{"index", index},
          {"name", who.name},
          {"uuid", uuid_text(who.uuid)},
          {"bus", who.bus_id},
          {"channels", defaults.channels},
          {"threads", defaults.threads},
          {"buffer_bytes", defaults.buffer_bytes},
          {"reaches", reachable(platform, **device, count)},
          {"links", links_of(platform, **device, count)},
          {"shared_between_processes", (*device)->shares_between_processes()}};
}

// Makes a connection of the device with itself, as two ranks would.
Status try_transport(net::Transport& transport, gpu::Device& device) {
  core::DeviceMemoryPort memory(device);
  const net::LinkShape shape{1, proto::connection_shape(1024)};
  GC_TRY_AS(auto receive, transport.make_end(net::Side::receive, shape, memory));
  GC_TRY_AS(auto send, transport.make_end(net::Side::send, shape, memory));
  GC_TRY(send->connect(receive->blob()));
  return receive->connect(send->blob());
}

Json transport_facts(gpu::Platform& platform) {
  Json list = Json::array();
  for (net::Transport* transport : {&net::p2p_transport(), &net::shm_transport()}) {
    auto device = platform.open(platform.current_device());
    Status status = device ? try_transport(*transport, **device) : device.status();
    Json entry = {{"name", transport->name()}, {"usable", status.ok()}};
    if (!status) entry["problem"] = status.what();
    list.push_back(std::move(entry));
  }
  return list;
}

// Finds the addresses at which other nodes reach processes of this one.
Json network_facts() {
  const auto host = net::list_interfaces();
  const auto own = host ? net::local_addresses() : Result<net::Addresses>(host.status());
  if (!own) return {{"problem", own.status().what()}};
  std::set<std::string> used;
  Json addresses = Json::array(), others = Json::array();
  const auto add = [](Json& list, const net::InterfaceAddress& each, const net::Address& address) {
    list.push_back({{"interface", each.name}, {"address", net::ip_text(address)}, {"loopback", each.loopback}});
  };
  for (const net::InterfaceAddress& each : *host)
    for (const net::Address& address : {own->ipv4, own->ipv6})
      if (each.address.is_same_ip(address) && each.address.interface == address.interface) {
        add(addresses, each, address);
        used.insert(each.name);
      }
  for (const net::InterfaceAddress& each : *host)
    if (!each.loopback && used.insert(each.name).second) add(others, each, each.address);
  const auto unused =
      net::unused_entries(*host, params().socket_ifname, static_cast<SocketFamilyChoice>(params().socket_family));
  return {{"addresses", addresses}, {"others", others}, {"unused_names", unused}};
}

const char* type_text(ParamType type) {
  switch (type) {
    case ParamType::integer: return "integer";
    case ParamType::size: return "size";
    case ParamType::boolean: return "boolean";
    case ParamType::text: return "text";
    case ParamType::choice: break;
  }
  return "choice";
}

Json parameter_facts() {
  Json list = Json::array();
  size_t count = 0;
  const ParamInfo* table = param_table(&count);
  for (size_t i = 0; i < count; ++i) {
    const ParamInfo& p = table[i];
    Json entry = {{"name", p.name},
                  {"value", param_text(p)},
                  {"source", param_source(p)},
                  {"type", type_text(p.type)},
                  {"level", level_name(p.level)}};
    if (p.type == ParamType::choice) entry["choices"] = p.choices;
    entry["accepted"] = accepted_text(p);
    entry["equal_on_all_ranks"] = p.scope == ParamScope::equal;
    entry["help"] = p.help;
    list.push_back(std::move(entry));
  }
  return list;
}

}  // namespace

Json gather() {
  Json facts = {{"host", topo::host_name()},  {"version", library_version()}, {"open_mpi", open_mpi_version()},
                {"driver", driver_version()}, {"build", build_facts()},       {"gpus", gpu_facts()}};
  if (!params_status()) facts["problem"] = params_status().what();
  facts["devices"] = Json::array();
  facts["transports"] = Json::array();
  auto platform = gpu::platform();
  if (platform) {
    facts["platform"] = {{"name", (*platform)->name()}};
    auto count = (*platform)->device_count();
    for (int i = 0; count && i < *count; ++i) facts["devices"].push_back(device_facts(**platform, i, *count));
    facts["transports"] = transport_facts(**platform);
  } else {
    facts["platform"] = {{"problem", platform.status().what()}};
  }
  facts["network"] = network_facts();
  auto topology = topo::describe_topology();
  facts["topology"] = topology ? *topology : std::string(topology.status().what());
  facts["parameters"] = parameter_facts();
  return facts;
}

}  // namespace gpucoll::info
