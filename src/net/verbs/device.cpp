#include "net/verbs/device.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "base/log.h"
#include "base/params.h"
#include "base/system_limits.h"

namespace gpucoll::net {
namespace {

// The parameter verbs_device names a device, a device and a port, or neither: "mlx5_0", "mlx5_0:1" or nothing.
struct WantedPort {
  std::string device;
  int port = 0;  // 0: any
  bool takes(const char* name) const { return device.empty() || device == name; }
};

Result<WantedPort> wanted_port() {
  const std::string& text = params().verbs_device;
  const size_t colon = text.find(':');
  WantedPort wanted = {text.substr(0, colon)};
  if (colon == std::string::npos) return wanted;
  const std::string digits = text.substr(colon + 1);
  if (digits.empty() || digits.size() > 3 || digits.find_first_not_of("0123456789") != std::string::npos ||
      std::stoi(digits) < 1 || std::stoi(digits) > 255)
    return Status::error(Code::invalid_argument,
                         "the parameter verbs_device is '%s': write a device's name, or name and port as mlx5_0:1",
                         text.c_str());
  wanted.port = std::stoi(digits);
  return wanted;
}

const char* describe_state(ibv_port_state state) {
  switch (state) {
    case IBV_PORT_DOWN: return "down";
    case IBV_PORT_INIT: return "not configured (is there a subnet manager?)";
    case IBV_PORT_ARMED: return "armed";
    case IBV_PORT_ACTIVE: return "active";
    default: return "in an unknown state";
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

// `port` 0: the first one that can be used.
Result<std::unique_ptr<VerbsDevice>> VerbsDevice::open(const VerbsLibrary& library, ibv_device* device, int port) {
  std::unique_ptr<VerbsDevice> opened(new VerbsDevice(library));
  const char* const name = library.get_device_name(device);
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

Result<std::unique_ptr<VerbsDevice>> VerbsDevice::open_wanted(const VerbsLibrary& library) {
  GC_TRY_AS(const WantedPort wanted, wanted_port());
  int count = 0;
  const std::unique_ptr<ibv_device*, void (*)(ibv_device**)> list(library.get_device_list(&count),
                                                                  library.free_device_list);
  std::string why;
  for (int i = 0; list && i < count; ++i) {
    ibv_device* const device = list.get()[i];
    const char* const name = library.get_device_name(device);
    if (!wanted.takes(name)) continue;
    // iWARP has no write with immediate.
    auto opened = device->transport_type == IBV_TRANSPORT_IB
                      ? open(library, device, wanted.port)
                      : Status::error(Code::unsupported, "%s is no device of InfiniBand or RoCE", name);
    if (opened) return opened;
    if (opened.status().code() == Code::invalid_argument) return opened;
    why += (why.empty() ? "" : "; ") + std::string(opened.status().what());
  }
  if (!why.empty()) return Status::error(Code::unsupported, "no RDMA device can be used here: %s", why.c_str());
  if (wanted.device.empty()) return Status::error(Code::unsupported, "there is no RDMA device here");
  return Status::error(Code::unsupported, "there is no RDMA device %s here (parameter verbs_device)",
                       wanted.device.c_str());
}

Result<VerbsDevice*> VerbsDevice::instance() {
  static std::mutex mutex;
  static VerbsDevice* device = nullptr;
  std::lock_guard lock(mutex);
  if (device) return device;
  GC_TRY_AS(const VerbsLibrary* library, VerbsLibrary::instance());
  GC_TRY_AS(auto chosen, open_wanted(*library));
  log::write(log::Level::info, "verbs: %s, %s", chosen->name().c_str(),
             chosen->roce() ? ("RoCE v2, GID " + std::to_string(chosen->gid_index())).c_str()
                            : ("InfiniBand, LID " + std::to_string(chosen->attributes().lid)).c_str());
  return device = chosen.release();
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
