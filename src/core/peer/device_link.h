// Finds what connects a rank's device with another one, and whether LL128 may go over it.
// Thread safety: pure, but for what devices and NVML are asked.
#pragma once
#include "gpu/device.h"
#include "topo/link.h"
#include "topo/nvml.h"

namespace gpucoll::core {

// Returns the link between two devices, equal on both ends. It asks NVML first, which also knows devices that
// CUDA_VISIBLE_DEVICES hides. Without NVML, a link whose atomic operations the device runs by itself is taken for
// NVLink, or for C2C where the device uses the host's page tables.
topo::Link link_between(const gpu::Device& device, const gpu::Identity& peer, const topo::Nvml* (*nvml)() = topo::nvml);

// Returns whether the link keeps stores of 128 bytes whole, or the parameter ll128_links takes it for one that does.
bool takes_lines(topo::Link link) noexcept;

}  // namespace gpucoll::core
