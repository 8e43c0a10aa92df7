// Says where PCI devices are on the bus, by the directories that sysfs has for them.
// Thread safety: pure functions of the file system.
#pragma once
#include <string>

namespace gpucoll::topo {

// Returns the directory of the PCI device that a path in sysfs leads to, such as /sys/bus/pci/devices/0000:17:00.0 or
// /sys/class/infiniband/mlx5_0/device, with all bridges above it in its name; empty: the path leads to none.
std::string pci_directory(const std::string& path);

// Returns how far a PCI device is from another one, by their directories: how many bridges up from `from` the first one
// is that both are below; more for different host bridges of one NUMA node, still more for those of two nodes, and most
// where a directory is empty.
int pci_distance(const std::string& from, const std::string& to);

// Returns the directory of the physical function that a device is a virtual one of (SR-IOV); empty: it is none.
std::string physical_function(const std::string& directory);

// Returns how many devices of the same vendor and class stand before a PCI device in sysfs: of 8 GPUs 0 to 7.
int pci_ordinal(const std::string& directory);

}  // namespace gpucoll::topo
