#include "topo/topology.h"

#include <hwloc.h>

#include <cerrno>
#include <cstdio>
#include <memory>

namespace gpucoll::topo {
namespace {

struct Destroy {
  void operator()(hwloc_topology* t) const { hwloc_topology_destroy(t); }
};
using Topology = std::unique_ptr<hwloc_topology, Destroy>;

Result<Topology> load() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw)) return Status::system(errno, "hwloc cannot start");
  Topology topology(raw);
  hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  if (hwloc_topology_load(raw)) return Status::system(errno, "hwloc cannot read this machine's topology");
  return topology;
}

std::string numa_line(hwloc_obj_t node) {
  char cpus[256];
  hwloc_bitmap_list_snprintf(cpus, sizeof cpus, node->cpuset);
  char line[384];
  std::snprintf(line, sizeof line, "NUMA node %u: %.1f GiB, cpus %s\n", node->os_index,
                static_cast<double>(node->attr->numanode.local_memory) / (1u << 30), cpus);
  return line;
}

// The PCI device at `device`, if it is a GPU or a network card.
std::string pci_line(hwloc_topology_t t, hwloc_obj_t device) {
  unsigned kind = device->attr->pcidev.class_id >> 8;
  constexpr unsigned kNetwork = 0x02, kDisplay = 0x03, kFabric = 0x0c;
  if (kind != kNetwork && kind != kDisplay && !(kind == kFabric && device->attr->pcidev.class_id == 0x0c06)) return "";
  hwloc_obj_t above = hwloc_get_non_io_ancestor_obj(t, device);
  int numa = above && above->nodeset ? hwloc_bitmap_first(above->nodeset) : -1;
  char line[384];
  std::snprintf(line, sizeof line, "PCI %04x:%02x:%02x.%x %s %s (NUMA node %d)\n", device->attr->pcidev.domain,
                device->attr->pcidev.bus, device->attr->pcidev.dev, device->attr->pcidev.func,
                kind == kDisplay ? "GPU" : "network", device->name ? device->name : "", numa);
  return line;
}

}  // namespace

Result<std::string> describe_topology() {
  GC_TRY_AS(Topology topology, load());
  hwloc_topology_t t = topology.get();
  std::string text = std::to_string(hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_PACKAGE)) + " package(s), " +
                     std::to_string(hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_CORE)) + " core(s), " +
                     std::to_string(hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_PU)) + " hardware thread(s)\n";
  for (hwloc_obj_t n = nullptr; (n = hwloc_get_next_obj_by_type(t, HWLOC_OBJ_NUMANODE, n));) text += numa_line(n);
  for (hwloc_obj_t d = nullptr; (d = hwloc_get_next_pcidev(t, d));) text += pci_line(t, d);
  return text;
}

}  // namespace gpucoll::topo
