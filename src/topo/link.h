// Names what connects two devices, and what it keeps whole of what kernels store over it.
// Thread safety: pure.
#pragma once
#include <cstdint>

namespace gpucoll::topo {

enum class Link : uint8_t {
  same_device,
  emulated,     // both are emulated devices of this node
  nvlink,       // directly, or through switches
  c2c,          // NVLink-C2C, through the memory of processors
  pcie,         // peer access that is known for no NVLink
  host_memory,  // no peer access
  network,      // another node
};

constexpr const char* name(Link link) noexcept {
  switch (link) {
    case Link::same_device: return "same device";
    case Link::emulated: return "emulated";
    case Link::nvlink: return "NVLink";
    case Link::c2c: return "C2C";
    case Link::pcie: return "PCIe";
    case Link::host_memory: return "host memory";
    case Link::network: break;
  }
  return "network";
}

// Returns whether 128 bytes that a warp stores at once become visible at once at the other end, which the protocol
// LL128 needs. PCIe may cut them into packets of 64 bytes, and orders none behind another where relaxed ordering is on;
// of C2C nothing is promised.
constexpr bool keeps_lines_whole(Link link) noexcept {
  return link == Link::same_device || link == Link::emulated || link == Link::nvlink;
}

}  // namespace gpucoll::topo
