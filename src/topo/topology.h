// Describes the machine as hwloc sees it, for gpucoll-info.
// Thread safety: pure; loads the topology anew at each call (tens of milliseconds).
#pragma once
#include <string>

#include "base/status.h"

namespace gpucoll::topo {

// A few lines: packages, NUMA nodes with memory, cores, and PCI devices of interest (GPUs, NICs) with their place.
Result<std::string> describe_topology();

}  // namespace gpucoll::topo
