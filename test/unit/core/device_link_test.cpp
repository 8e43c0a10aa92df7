// What connects devices, on machines that are made up: NVML's answers, the device's own, and what ranks make of them.
#include "core/peer/device_link.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "../forwarding_device.h"
#include "base/params.h"
#include "core/peer/peers.h"
#include "wireup_ranks.h"

namespace gpucoll_test {
namespace {

using topo::Link;
using topo::Nvlink;
using topo::Nvml;

// A machine as NVML shows it. GPU i has the bus i and the uuid of 16 times i.
struct Machine {
  struct Port {
    int active, type;
    unsigned bus;  // of the other end
  };
  std::vector<std::vector<Port>> gpus;
  bool knows_p2p = false;
  std::set<std::pair<int, int>> p2p;  // pairs that have it by NVLink
};
Machine g_machine;

int index_of(Nvml::Device device) { return static_cast<int>(reinterpret_cast<intptr_t>(device)) - 1; }

int device_by_uuid(const char* uuid, Nvml::Device* device) {
  for (size_t i = 0; i < g_machine.gpus.size(); ++i) {
    char own[48];
    const auto x = static_cast<unsigned>(i);
    std::snprintf(own, sizeof own, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", x, x, x,
                  x, x, x, x, x, x, x, x, x, x, x, x, x);
    if (std::strcmp(own, uuid)) continue;
    *device = reinterpret_cast<Nvml::Device>(static_cast<intptr_t>(i) + 1);
    return 0;
  }
  return 6;
}
int p2p_status(Nvml::Device a, Nvml::Device b, int capability, int* status) {
  if (!g_machine.knows_p2p || capability != Nvml::kP2pByNvlink) return 3;
  *status = g_machine.p2p.count({index_of(a), index_of(b)}) ? 0 : 5;
  return 0;
}
int pci_info(Nvml::Device device, Nvml::PciInfo* info) {
  info->domain = 0, info->bus = static_cast<unsigned>(index_of(device)), info->device = 0;
  return 0;
}
const Machine::Port* port(Nvml::Device device, unsigned link) {
  const auto& ports = g_machine.gpus[static_cast<size_t>(index_of(device))];
  return link < ports.size() ? &ports[link] : nullptr;
}
int link_state(Nvml::Device device, unsigned link, int* active) {
  const auto* it = port(device, link);
  if (!it) return link == 0 ? Nvml::kNotSupported : 2;
  return *active = it->active, 0;
}
int remote_type(Nvml::Device device, unsigned link, int* type) { return *type = port(device, link)->type, 0; }
int remote_pci_info(Nvml::Device device, unsigned link, Nvml::PciInfo* info) {
  info->domain = 0, info->bus = port(device, link)->bus, info->device = 0;
  return 0;
}

constexpr Nvml kNvml = {device_by_uuid, p2p_status, pci_info, link_state, remote_type, remote_pci_info};

gpu::Identity identity_of(int gpu) {
  gpu::Identity identity{};
  std::snprintf(identity.kind, sizeof identity.kind, "cuda");
  std::memset(identity.uuid, gpu, sizeof identity.uuid);
  return identity;
}

// A GPU that says of itself what the test makes it say, over the emulated device.
class MadeUpGpu final : public ForwardingDevice {
 public:
  explicit MadeUpGpu(int gpu, bool atomics = false)
      : ForwardingDevice(**gpu::emu_platform().open(0)), identity_(gpucoll_test::identity_of(gpu)), atomics_(atomics) {}
  const gpu::Identity& identity() const override { return identity_; }
  bool can_reach(const gpu::Identity& peer) const override {
    return !std::strcmp(peer.kind, "cuda") && !out_of_reach.count(peer.uuid[0]);
  }
  bool has_native_atomics(const gpu::Identity&) const override { return atomics_; }
  bool uses_host_page_tables() const override { return host_tables; }
  std::set<int> out_of_reach;
  bool host_tables = false;

 private:
  gpu::Identity identity_;
  bool atomics_;
};

Link link(const MadeUpGpu& a, int b, const Nvml* nvml) {
  static const Nvml* asked;
  asked = nvml;
  return core::link_between(a, identity_of(b), [] { return asked; });
}

TEST(DeviceLink, IsNvlinkWhereNvmlSaysSo) {
  g_machine = {{{}, {}, {}}, true, {{0, 1}}};
  EXPECT_EQ(link(MadeUpGpu(0), 1, &kNvml), Link::nvlink);
  EXPECT_EQ(link(MadeUpGpu(0), 2, &kNvml), Link::pcie);
  EXPECT_EQ(link(MadeUpGpu(0), 0, &kNvml), Link::same_device);
  EXPECT_EQ(link(MadeUpGpu(0, true), 2, &kNvml), Link::c2c);
}

// 0 and 1 have a link, 2 and 3 a switch, a link from 0 to 4 is down, and 4 has none.
TEST(DeviceLink, FollowsTheLinksOfGpus) {
  const Machine::Port to_0 = {1, Nvml::kGpu, 0}, to_1 = {1, Nvml::kGpu, 1}, to_switch = {1, Nvml::kSwitch, 77};
  g_machine = {{{{0, Nvml::kGpu, 4}, to_1}, {to_0}, {to_switch}, {to_switch, to_switch}, {}}, false, {}};
  EXPECT_EQ(link(MadeUpGpu(0), 1, &kNvml), Link::nvlink);
  EXPECT_EQ(link(MadeUpGpu(1), 0, &kNvml), Link::nvlink);
  EXPECT_EQ(link(MadeUpGpu(2), 3, &kNvml), Link::nvlink);
  EXPECT_EQ(link(MadeUpGpu(0), 2, &kNvml), Link::pcie);
  EXPECT_EQ(link(MadeUpGpu(0), 4, &kNvml), Link::pcie);
}

TEST(DeviceLink, IsWhatTheDeviceSaysWithoutNvml) {
  EXPECT_EQ(link(MadeUpGpu(0), 1, nullptr), Link::pcie);
  EXPECT_EQ(link(MadeUpGpu(0, true), 1, nullptr), Link::nvlink);
  MadeUpGpu beside_host(0, true);
  beside_host.host_tables = true;
  EXPECT_EQ(link(beside_host, 1, nullptr), Link::c2c);
  MadeUpGpu apart(0, true);
  apart.out_of_reach = {1};
  EXPECT_EQ(link(apart, 1, nullptr), Link::host_memory);
  g_machine = {{{}}, true, {}};  // knows one of the two
  EXPECT_EQ(link(MadeUpGpu(0, true), 9, &kNvml), Link::nvlink);
}

TEST(DeviceLink, OfEmulatedDevicesKeepsLinesWhole) {
  auto& device = **gpu::emu_platform().open(0);
  EXPECT_EQ(core::link_between(device, device.identity()), Link::same_device);
  EXPECT_EQ(core::link_between(device, (*gpu::emu_platform().open(1))->identity()), Link::emulated);
  EXPECT_EQ(core::link_between(device, identity_of(0)), Link::host_memory);
}

TEST(DeviceLink, TakesLinesOverNvlinkOrOnRequest) {
  for (Link link : {Link::same_device, Link::emulated, Link::nvlink}) EXPECT_TRUE(core::takes_lines(link));
  for (Link link : {Link::c2c, Link::pcie, Link::host_memory, Link::network}) EXPECT_FALSE(core::takes_lines(link));
  ASSERT_TRUE(set_param("ll128_links", "any", "test").ok());
  for (Link link : {Link::nvlink, Link::c2c, Link::pcie}) EXPECT_TRUE(core::takes_lines(link));
  for (Link link : {Link::host_memory, Link::network}) EXPECT_FALSE(core::takes_lines(link));
  ASSERT_TRUE(set_param("ll128_links", "nvlink", "test").ok());
}

// What all ranks have found out, where the GPU of rank i has native atomics or not.
std::vector<uint32_t> facts_of(const std::vector<bool>& atomics) {
  const int n = static_cast<int>(atomics.size());
  ThreadsExchange exchange(n);
  std::vector<uint32_t> facts(atomics.size());
  std::vector<std::thread> threads;
  for (int r = 0; r < n; ++r)
    threads.emplace_back([&, r] {
      MadeUpGpu gpu(0x70 + r, atomics[static_cast<size_t>(r)]);
      ThreadsBootstrap bootstrap(exchange, r, n);
      auto peers = core::Peers::exchange(bootstrap, gpu, Status());
      ASSERT_TRUE(peers.ok()) << peers.status().what();
      facts[static_cast<size_t>(r)] = peers->common_capabilities();
    });
  for (auto& thread : threads) thread.join();
  return facts;
}

// Else one rank would wait for lines of a ring that another one fills with steps.
TEST(DeviceLink, OfOnePairKeepsAllRanksFromLl128) {
  for (uint32_t facts : facts_of({true, true, true})) EXPECT_TRUE(facts & proto::kKeepsLinesWhole);
  for (uint32_t facts : facts_of({true, false, true})) {
    EXPECT_FALSE(facts & proto::kKeepsLinesWhole);
    EXPECT_TRUE(facts & proto::kReachesAll);
  }
}

}  // namespace
}  // namespace gpucoll_test
