#include "topo/nvml.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <optional>

namespace gpucoll::topo {
namespace {

template <class Function>
bool find(void* library, const char* name, Function** function) {
  *function = reinterpret_cast<Function*>(dlsym(library, name));
  return *function != nullptr;
}

const Nvml* load() {
  void* const library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  int (*init)() = nullptr;
  auto* const table = new Nvml{};
  find(library, "nvmlDeviceGetP2PStatus", &table->p2p_status);
  find(library, "nvmlDeviceGetPciInfo_v3", &table->pci_info);
  find(library, "nvmlDeviceGetNvLinkState", &table->link_state);
  find(library, "nvmlDeviceGetNvLinkRemoteDeviceType", &table->remote_type);
  find(library, "nvmlDeviceGetNvLinkRemotePciInfo_v2", &table->remote_pci_info);
  if (find(library, "nvmlInit_v2", &init) && find(library, "nvmlDeviceGetHandleByUUID", &table->device_by_uuid) &&
      init() == 0)
    return table;
  delete table;
  return nullptr;
}

// "GPU-" and the bytes, as 8-4-4-4-12 digits.
bool find_device(const Nvml& library, const GpuUuid& uuid, Nvml::Device* device) noexcept {
  char text[48] = "GPU";
  size_t used = 3;
  for (int i = 0; i < 16; ++i) {
    const char* const dash = i == 0 || i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "";
    used += static_cast<size_t>(std::snprintf(text + used, sizeof text - used, "%s%02x", dash, uuid[i]));
  }
  return library.device_by_uuid(text, device) == 0;
}

// Where the active links of a GPU lead.
struct Ends {
  bool to_switch = false, to_peer = false;
};
std::optional<Ends> ends_of(const Nvml& library, Nvml::Device device, const Nvml::PciInfo& peer) noexcept {
  Ends ends;
  for (unsigned link = 0; link < Nvml::kMostLinks; ++link) {
    int active = 0, type = -1;
    Nvml::PciInfo remote{};
    if (const int error = library.link_state(device, link, &active)) {
      if (link == 0 && error != Nvml::kNotSupported) return std::nullopt;
      break;
    }
    if (active != Nvml::kActive) continue;
    if (library.remote_type && library.remote_type(device, link, &type) == 0 && type == Nvml::kSwitch)
      ends.to_switch = true;
    if (library.remote_pci_info(device, link, &remote) == 0 && remote.domain == peer.domain && remote.bus == peer.bus &&
        remote.device == peer.device)
      ends.to_peer = true;
  }
  return ends;
}

// All switches of a machine are taken for connected: what its operator has divided has no peer access.
Nvlink by_links(const Nvml& library, Nvml::Device a, Nvml::Device b) noexcept {
  Nvml::PciInfo place_of_a{}, place_of_b{};
  if (!library.pci_info || !library.link_state || !library.remote_pci_info) return Nvlink::unknown;
  if (library.pci_info(a, &place_of_a) != 0 || library.pci_info(b, &place_of_b) != 0) return Nvlink::unknown;
  const auto of_a = ends_of(library, a, place_of_b), of_b = ends_of(library, b, place_of_a);
  if (!of_a || !of_b) return Nvlink::unknown;
  return of_a->to_peer || (of_a->to_switch && of_b->to_switch) ? Nvlink::yes : Nvlink::no;
}

}  // namespace

const Nvml* nvml() noexcept {
  static const Nvml* const library = load();
  return library;
}

Nvlink nvlink_between(const Nvml* library, const GpuUuid& a, const GpuUuid& b) noexcept {
  Nvml::Device device_a = nullptr, device_b = nullptr;
  if (!library || !find_device(*library, a, &device_a) || !find_device(*library, b, &device_b)) return Nvlink::unknown;
  int status = -1;
  if (library->p2p_status && library->p2p_status(device_a, device_b, Nvml::kP2pByNvlink, &status) == 0)
    return status == Nvml::kP2pIsPossible ? Nvlink::yes : Nvlink::no;
  return by_links(*library, device_a, device_b);
}

}  // namespace gpucoll::topo
