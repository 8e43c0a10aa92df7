#include "net/verbs/device.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "base/params.h"
#include "base/system_limits.h"
#include "topo/pci.h"

namespace gpucoll::net {
namespace {

const char* describe_state(ibv_port_state state) {
  switch (state) {
    case IBV_PORT_DOWN: return "down";
    case IBV_PORT_INIT: return "not configured (is there a subnet manager?)";
    case IBV_PORT_ARMED: return "armed";
    case IBV_PORT_ACTIVE: return "active";
    default: return "in an unknown state";
  }
}

// By verbs' tables.
uint64_t lanes_of(uint8_t width) {
  switch (width) {
    case 1: return 1;
    case 2: return 4;
    case 4: return 8;
    case 8: return 12;
    case 16: return 2;
    default: return 0;
  }
}
uint64_t lane_rate(uint8_t speed) {  // in Mb/s
  switch (speed) {
    case 1: return 2500;
    case 2: return 5000;
    case 4:
    case 8: return 10000;
    case 16: return 14000;
    case 32: return 25000;
    case 64: return 50000;
    case 128: return 100000;
    default: return 0;
  }
}

bool is_ipv4(const ibv_gid& gid) {
  static constexpr uint8_t kPrefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return !std::memcmp(gid.raw, kPrefix, sizeof kPrefix);
}
bool is_link_local(const ibv_gid& gid) { return gid.raw[0] == 0xfe && (gid.raw[1] & 0xc0) == 0x80; }

// Ranks the GIDs of a RoCE port; choose_gid() takes the greatest, and none of rank 0. Routers carry RoCE v2, and
// administrators set up IPv4.
int rank_of(const ibv_gid_entry& entry) {
  if (entry.gid_type != IBV_GID_TYPE_ROCE_V2) return 0;
  return is_ipv4(entry.gid) ? 3 : is_link_local(entry.gid) ? 1 : 2;
}

}  // namespace

VerbsDevice::~VerbsDevice() {
  if (domain_) library_.dealloc_pd(domain_);
  if (context_) library_.close_device(context_);
}

uint64_t VerbsDevice::rate() const noexcept {
  return lanes_of(attributes_.active_width) * lane_rate(attributes_.active_speed);
}

const char* VerbsDevice::port_state() const noexcept {
  ibv_port_attr attributes = {};
  if (library_.query_port(context_, static_cast<uint8_t>(port_), &attributes)) return "gone";
  return describe_state(attributes.state);
}

void VerbsDevice::remember_silent(const PeerName& peer) {
  std::lock_guard lock(mutex_);
  silent_[peer] = std::chrono::steady_clock::now();
}

Status VerbsDevice::expect_answer(const PeerName& peer) {
  constexpr auto kRemembered = std::chrono::minutes(5);
  std::lock_guard lock(mutex_);
  const auto found = silent_.find(peer);
  if (found == silent_.end()) return {};
  const auto ago = std::chrono::steady_clock::now() - found->second;
  if (ago < kRemembered)
    return Status::error(
        Code::remote, "the other side's device did not answer %s, %lld s ago; gpucoll tries it again after 5 minutes",
        name_.c_str(), static_cast<long long>(ago / std::chrono::seconds(1)));
  silent_.erase(found);
  return {};
}

void VerbsDevice::forget_silent() {
  std::lock_guard lock(mutex_);
  silent_.clear();
}

Status VerbsDevice::choose_gid() {
  const int64_t wanted = params().verbs_gid_index;
  int best = -1;
  constexpr int kMost = 256;  // a connection has 8 bits for the index
  for (int i = 0; i < std::min<int>(attributes_.gid_tbl_len, kMost); ++i) {
    if (wanted != kAuto && i != wanted) continue;
    ibv_gid_entry entry = {};
    // An entry that is not used is an error.
    if (library_.query_gid_ex(context_, static_cast<uint32_t>(port_), static_cast<uint32_t>(i), &entry, 0,
                              sizeof entry))
      continue;
    const int rank = wanted != kAuto ? 4 : rank_of(entry);
    if (rank <= best || rank == 0) continue;
    best = rank;
    gid_ = entry.gid;
    gid_index_ = i;
  }
  if (best > 0) return {};
  if (wanted != kAuto)
    return Status::error(Code::invalid_argument, "%s has no GID with index %lld: see show_gids, or leave %s out",
                         name_.c_str(), static_cast<long long>(wanted), "the parameter verbs_gid_index");
  return Status::error(Code::unsupported, "%s has no GID of RoCE v2: give its network interface an IP address",
                       name_.c_str());
}

Status VerbsDevice::use_port(int port) {
  port_ = port;
  name_ = std::string(library_.get_device_name(context_->device)) + ", port " + std::to_string(port);
  if (const int error = library_.query_port(context_, static_cast<uint8_t>(port), &attributes_))
    return Status::system(error, "%s cannot be queried", name_.c_str());
  if (attributes_.state != IBV_PORT_ACTIVE)
    return Status::error(Code::unsupported, "%s is %s", name_.c_str(), describe_state(attributes_.state));
  // With InfiniBand the LID leads to the peer, unless the user names a GID.
  if (roce() || params().verbs_gid_index != kAuto) return choose_gid();
  ibv_gid_entry entry = {};
  if (!library_.query_gid_ex(context_, static_cast<uint32_t>(port), 0, &entry, 0, sizeof entry)) gid_ = entry.gid;
  return {};
}

Result<std::unique_ptr<VerbsDevice>> VerbsDevice::open(const VerbsLibrary& library, ibv_device* device, int port) {
  std::unique_ptr<VerbsDevice> opened(new VerbsDevice(library));
  const char* const name = library.get_device_name(device);
  opened->directory_ = topo::pci_directory(std::string(device->ibdev_path) + "/device");
  opened->context_ = library.open_device(device);
  if (!opened->context_) return Status::system(errno, "%s cannot be opened", name);
  ibv_device_attr attributes = {};
  if (const int error = library.query_device(opened->context_, &attributes))
    return Status::system(error, "%s cannot be queried", name);
  opened->most_requests_ = attributes.max_qp_wr;
  Status first;
  const int begin = port ? port : 1, end = port ? port : attributes.phys_port_cnt;
  for (int i = begin; i <= end; ++i) {
    Status usable = opened->use_port(i);
    if (usable) {
      opened->domain_ = library.alloc_pd(opened->context_);
      if (!opened->domain_) return Status::system(errno, "%s gives no protection domain", name);
      return opened;
    }
    if (first) first = std::move(usable);
  }
  return first ? Status::error(Code::unsupported, "%s has no port", name) : std::move(first);
}

Result<MemoryRegion> MemoryRegion::create(VerbsDevice& device, void* data, size_t bytes, bool peers_write) {
  const int access = peers_write ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE : 0;
  const VerbsLibrary& library = device.library();
  ibv_mr* const region = library.reg_mr(device.domain(), data, bytes, access);
  if (!region)
    return Status::error(errno == ENOMEM ? Code::out_of_memory : Code::system, "%s cannot register %zu bytes: %s%s",
                         device.name().c_str(), bytes, strerror(errno),
                         errno == ENOMEM ? "; raise `ulimit -l`, the limit of locked memory" : "");
  return MemoryRegion(std::unique_ptr<ibv_mr, Deregister>(region, {&library}));
}

}  // namespace gpucoll::net
