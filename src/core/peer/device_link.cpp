#include "core/peer/device_link.h"

#include <cstring>

#include "base/params.h"

namespace gpucoll::core {

using topo::Link;
using topo::Nvlink;

Link link_between(const gpu::Device& device, const gpu::Identity& peer, const topo::Nvml* (*nvml)()) {
  const gpu::Identity& own = device.identity();
  if (std::strcmp(own.kind, peer.kind)) return Link::host_memory;
  if (!std::memcmp(own.uuid, peer.uuid, sizeof own.uuid)) return Link::same_device;
  if (!device.can_reach(peer)) return Link::host_memory;
  if (device.is_emulated()) return Link::emulated;
  const Nvlink nvlink = topo::nvlink_between(nvml(), own.uuid, peer.uuid);
  if (nvlink == Nvlink::yes) return Link::nvlink;
  if (!device.has_native_atomics(peer)) return Link::pcie;
  return nvlink == Nvlink::no || device.uses_host_page_tables() ? Link::c2c : Link::nvlink;
}

bool takes_lines(Link link) noexcept {
  if (params().ll128_links == kLl128LinksNvlink) return topo::keeps_lines_whole(link);
  return link != Link::host_memory && link != Link::network;
}

}  // namespace gpucoll::core
