// NVLink between the GPUs of this machine, as NVIDIA's management library (NVML) knows it. The library is loaded when
// somebody asks, and asked about GPUs that CUDA_VISIBLE_DEVICES hides from this process as well.
//
// Thread safety: every function may be called from any thread. Ownership: the library stays loaded.
#pragma once
#include <cstdint>

namespace gpucoll::topo {

using GpuUuid = uint8_t[16];

// Its functions, in the form that its binary interface keeps; every answer 0 is success. Null where a version has none.
struct Nvml {
  using Device = void*;
  struct PciInfo {
    char legacy_bus_id[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
  };
  static constexpr int kP2pByNvlink = 2;                 // of p2p_status: what is asked for
  static constexpr int kGpu = 0, kSwitch = 2;            // of remote_type
  static constexpr unsigned kMostLinks = 36;             // beyond the last one of a GPU, link_state fails
  static constexpr int kP2pIsPossible = 0, kActive = 1;  // answers
  static constexpr int kNotSupported = 3;                // an error: the GPU has no links

  int (*device_by_uuid)(const char* uuid, Device* device);
  int (*p2p_status)(Device a, Device b, int capability, int* status);
  int (*pci_info)(Device device, PciInfo* info);
  int (*link_state)(Device device, unsigned link, int* active);
  int (*remote_type)(Device device, unsigned link, int* type);
  int (*remote_pci_info)(Device device, unsigned link, PciInfo* info);
};

// Null where there is no such library, or where it does not start.
const Nvml* nvml() noexcept;

enum class Nvlink { no, yes, unknown };
// Unknown where `library` is null or does not know both GPUs.
Nvlink nvlink_between(const Nvml* library, const GpuUuid& a, const GpuUuid& b) noexcept;

}  // namespace gpucoll::topo
