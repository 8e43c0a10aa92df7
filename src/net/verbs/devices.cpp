#include "net/verbs/devices.h"

#include <algorithm>
#include <limits>
#include <mutex>

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

  const NamedPort* find(const char* name) const {
    const auto found =
        std::find_if(named.begin(), named.end(), [=](const NamedPort& port) { return port.device == name; });
    return found == named.end() ? nullptr : &*found;
  }
  bool names_devices() const { return !named.empty() && !leaves_out; }
  bool takes(const char* name) const { return named.empty() || (find(name) != nullptr) != leaves_out; }
  int port_of(const char* name) const {
    const NamedPort* const port = find(name);
    return port ? port->port : 0;
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

// A port that is slower than others is for other things than data.
void keep_fastest(std::vector<std::unique_ptr<VerbsDevice>>* devices) {
  uint64_t most = 0;
  for (const auto& device : *devices) most = std::max(most, device->rate());
  std::erase_if(*devices, [=](const auto& device) { return device->rate() < most; });
}

Status none(const std::string& why) {
  const std::string& wanted = params().verbs_device;
  if (!why.empty()) return Status::error(Code::unsupported, "no RDMA device can be used here: %s", why.c_str());
  if (wanted.empty()) return Status::error(Code::unsupported, "there is no RDMA device here");
  return Status::error(Code::unsupported, "there is no RDMA device %s here (parameter verbs_device)", wanted.c_str());
}

}  // namespace

Result<std::unique_ptr<VerbsDevices>> VerbsDevices::open_wanted(const VerbsLibrary& library) {
  GC_TRY_AS(const WantedPorts wanted, wanted_ports());
  int count = 0;
  const std::unique_ptr<ibv_device*, void (*)(ibv_device**)> list(library.get_device_list(&count),
                                                                  library.free_device_list);
  auto devices = std::make_unique<VerbsDevices>();
  std::string why;
  for (int i = 0; list && i < count; ++i) {
    ibv_device* const device = list.get()[i];
    const char* const name = library.get_device_name(device);
    if (!wanted.takes(name)) continue;
    auto opened = open(library, device, wanted.port_of(name));
    if (!opened && opened.status().code() == Code::invalid_argument) return std::move(opened).status();
    if (opened)
      devices->all_.push_back(*std::move(opened));
    else
      why += (why.empty() ? "" : "; ") + std::string(opened.status().what());
  }
  if (devices->all_.empty()) return none(why);
  if (!wanted.names_devices()) keep_fastest(&devices->all_);
  return devices;
}

Result<const VerbsDevices*> VerbsDevices::instance() {
  static std::mutex mutex;
  static const VerbsDevices* devices = nullptr;
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

std::vector<VerbsDevice*> VerbsDevices::nearest(const std::string& gpu, size_t most) const {
  int least = std::numeric_limits<int>::max();
  std::vector<VerbsDevice*> nearest;
  for (const auto& device : all_) {
    const int distance = gc_mutant(538) ? 0 : topo::pci_distance(gpu, device->directory());
    if (distance < least) nearest.clear();
    least = std::min(least, distance);
    if (distance == least) nearest.push_back(device.get());
  }
  const size_t first = static_cast<size_t>(topo::pci_ordinal(gpu)) % nearest.size();
  std::rotate(nearest.begin(), nearest.begin() + static_cast<std::ptrdiff_t>(first), nearest.end());
  nearest.resize(std::min(nearest.size(), most));
  return nearest;
}

}  // namespace gpucoll::net
