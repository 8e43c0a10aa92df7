#include "net/verbs/devices.h"

#include <algorithm>
#include <limits>
#include <mutex>
#include <set>

#include "base/log.h"
#include "base/mutant.h"
#include "base/params.h"
#include "topo/pci.h"

namespace gpucoll::net {
namespace {

struct NamedPort {
  std::string device;
  int port = 0;  // 0: any
};

// The parameter verbs_device: a list of names, with ports or without, of the devices to take, or behind a ^ of those to
// leave out. Nothing: all are taken.
struct WantedPorts {
  std::vector<NamedPort> named;
  bool leaves_out = false;

  bool names_devices() const { return !named.empty() && !leaves_out; }
  // Returns which ports of a device are taken; 0: the first one that can be used.
  std::vector<int> ports_of(const std::string& device) const {
    std::vector<int> ports;
    for (const NamedPort& port : named)
      if (port.device == device) ports.push_back(port.port);
    if (names_devices()) return ports;
    return ports.empty() ? std::vector<int>{0} : std::vector<int>();
  }
};

Status no_list(const std::string& text) {
  return Status::error(Code::invalid_argument,
                       "the parameter verbs_device is '%s': write names of devices, with ports or without, as in "
                       "mlx5_0,mlx5_1:1, or names of those to leave out, as in ^mlx5_2",
                       text.c_str());
}

// Returns a port's number; 0: the digits are none.
int number_of(const std::string& digits) {
  if (digits.empty() || digits.size() > 3 || digits.find_first_not_of("0123456789") != std::string::npos) return 0;
  const int number = std::stoi(digits);
  return number <= std::numeric_limits<uint8_t>::max() ? number : 0;
}

Result<WantedPorts> wanted_ports() {
  const std::string& text = params().verbs_device;
  WantedPorts wanted;
  if (text.empty()) return wanted;
  wanted.leaves_out = text[0] == '^';
  for (size_t at = wanted.leaves_out, end; at <= text.size(); at = end + 1) {
    end = std::min(text.find(',', at), text.size());
    const std::string entry = text.substr(at, end - at);
    const size_t colon = entry.find(':');
    NamedPort port = {entry.substr(0, colon)};
    if (port.device.empty() || (wanted.leaves_out && colon != std::string::npos)) return no_list(text);
    if (colon != std::string::npos && !(port.port = number_of(entry.substr(colon + 1)))) return no_list(text);
    wanted.named.push_back(std::move(port));
  }
  return wanted;
}

Result<std::unique_ptr<VerbsDevice>> open(const VerbsLibrary& library, ibv_device* device, int port) {
  // iWARP has no write with immediate.
  if (device->transport_type == IBV_TRANSPORT_IB) return VerbsDevice::open(library, device, port);
  return Status::error(Code::unsupported, "%s is no device of InfiniBand or RoCE", library.get_device_name(device));
}

using Devices = std::vector<std::unique_ptr<VerbsDevice>>;

// Leaves out what some of the devices have and others have not.
template <class Has>
void leave_out(Devices* devices, const char* why, const Has& has) {
  if (std::all_of(devices->begin(), devices->end(), has)) return;
  for (const auto& device : *devices)
    if (has(device)) log::write(log::Level::info, "verbs: %s is not used: %s", device->name().c_str(), why);
  std::erase_if(*devices, has);
}

// Where the user names no devices: one network, and no port that is for other things than data.
void choose(Devices* devices) {
  std::set<std::string> there;
  for (const auto& device : *devices) there.insert(device->directory());
  leave_out(devices, "it is a virtual function of another one", [&](const auto& device) {
    const std::string physical = topo::physical_function(device->directory());
    return !physical.empty() && there.count(physical);
  });
  leave_out(devices, "another one is of InfiniBand", [](const auto& device) { return device->roce(); });
  uint64_t most = 0;
  for (const auto& device : *devices) most = std::max(most, device->rate());
  leave_out(devices, "another one is faster", [=](const auto& device) { return device->rate() < most; });
}

Status absent(const std::string& name) {
  return Status::error(Code::unsupported, "there is no RDMA device %s here (parameter verbs_device)", name.c_str());
}

// Says which of the devices that the user names there are not.
void tell_absent(const WantedPorts& wanted, ibv_device* const* list, int count, const VerbsLibrary& library) {
  for (const NamedPort& port : wanted.named)
    if (std::none_of(list, list + count,
                     [&](ibv_device* device) { return port.device == library.get_device_name(device); }))
      log::write(log::Level::warn, "%s", absent(port.device).what());
}

Status none(const std::string& why) {
  if (!why.empty()) return Status::error(Code::unsupported, "no RDMA device can be used here: %s", why.c_str());
  if (!params().verbs_device.empty()) return absent(params().verbs_device);
  return Status::error(Code::unsupported, "there is no RDMA device here");
}

}  // namespace

Result<std::unique_ptr<VerbsDevices>> VerbsDevices::open_wanted(const VerbsLibrary& library) {
  GC_TRY_AS(const WantedPorts wanted, wanted_ports());
  int count = 0;
  const std::unique_ptr<ibv_device*, void (*)(ibv_device**)> list(library.get_device_list(&count),
                                                                  library.free_device_list);
  auto devices = std::make_unique<VerbsDevices>();
  std::string why;
  Status wrong;  // parameter
  for (int i = 0; list && i < count; ++i) {
    for (const int port : wanted.ports_of(library.get_device_name(list.get()[i]))) {
      auto opened = open(library, list.get()[i], port);
      if (opened) {
        devices->all_.push_back(*std::move(opened));
        continue;
      }
      why += (why.empty() ? "" : "; ") + std::string(opened.status().what());
      if (opened.status().code() == Code::invalid_argument && wrong) wrong = std::move(opened).status();
    }
  }
  if (devices->all_.empty()) return wrong ? none(why) : std::move(wrong);
  if (!why.empty()) log::write(log::Level::info, "verbs: not all RDMA devices can be used: %s", why.c_str());
  if (wanted.names_devices())
    tell_absent(wanted, list.get(), count, library);
  else
    choose(&devices->all_);
  return devices;
}

Result<VerbsDevices*> VerbsDevices::instance() {
  static std::mutex mutex;
  static VerbsDevices* devices = nullptr;
  std::lock_guard lock(mutex);
  if (devices) return devices;
  GC_TRY_AS(const VerbsLibrary* library, VerbsLibrary::instance());
  GC_TRY_AS(auto opened, open_wanted(*library));
  for (const auto& device : opened->all())
    log::write(log::Level::info, "verbs: %s, %s", device->name().c_str(),
               device->roce() ? ("RoCE v2, GID " + std::to_string(device->gid_index())).c_str()
                              : ("InfiniBand, LID " + std::to_string(device->attributes().lid)).c_str());
  return devices = opened.release();
}

VerbsDevices::Nearest VerbsDevices::find_nearest(const std::string& gpu) const {
  int least = std::numeric_limits<int>::max();
  std::vector<VerbsDevice*> found;
  for (const auto& device : all_) {
    const int distance = gc_mutant(538) ? 0 : topo::pci_distance(gpu, device->directory());
    if (distance < least) found.clear();
    least = std::min(least, distance);
    if (distance == least) found.push_back(device.get());
  }
  const auto first = static_cast<uint32_t>(static_cast<size_t>(topo::pci_ordinal(gpu)) % found.size());
  if (found.size() <= kMost) return {found, first};
  std::rotate(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(first), found.end());
  found.resize(kMost);
  return {found, 0};
}

const VerbsDevices::Nearest& VerbsDevices::nearest(const std::string& gpu) {
  std::lock_guard lock(mutex_);
  const auto known = nearest_.find(gpu);
  if (known != nearest_.end()) return known->second;
  const Nearest& found = nearest_[gpu] = find_nearest(gpu);
  std::string names;
  for (const VerbsDevice* device : found.devices) names += (names.empty() ? "" : "; ") + device->name();
  log::write(log::Level::info, "verbs: nearest to %s: %s", gpu.empty() ? "this device" : gpu.c_str(), names.c_str());
  return found;
}

}  // namespace gpucoll::net
