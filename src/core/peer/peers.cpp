#include "core/peer/peers.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <limits>
#include <map>
#include <string_view>
#include <thread>

#include "base/equal_params.h"
#include "base/log.h"
#include "base/mutant.h"
#include "base/params.h"
#include "core/peer/device_link.h"
#include "core/peer/fault.h"
#include "core/peer/heart.h"
#include "core/plan/tuning_file.h"
#include "net/transport.h"
#include "topo/node.h"

namespace gpucoll::core {
namespace {

using proto::ControlPage;
using proto::PeerInfo;

// In PeerInfo::fault, beside the code: `said` blames a rank, and is passed on unchanged.
constexpr uint32_t kBlames = 1u << 31;

// How much later than its memory a process that dies may be seen to have ended.
constexpr std::chrono::milliseconds kDying(200);

void set_verdict(PeerInfo* info, const Status& status) {
  static_assert(sizeof(EqualParams) <= sizeof info->said);
  info->fault = static_cast<uint32_t>(status.code()) | (status.blames() ? kBlames : 0);
  std::snprintf(info->said, sizeof info->said, "%s", status.what());
  if (info->fault) return;
  const EqualParams params = EqualParams::of_this_process();
  std::memcpy(info->said, &params, sizeof params);
}

// REQUIRES: no fault of `info`.
EqualParams params_of(const PeerInfo& info) {
  EqualParams params;
  std::memcpy(&params, info.said, sizeof params);
  return params;
}

PeerInfo describe(int rank, const gpu::Device& device, const SharedMemory& page, const Status& status,
                  const CommOptions& options) {
  PeerInfo info = {};
  info.magic = proto::kPeerMagic;
  info.rank = rank;
  std::snprintf(info.version, sizeof info.version, "%s", library_version());
  info.tuning_hash = tuning_hash();
  auto node = topo::this_node();
  if (node) std::memcpy(info.node, node->data(), node->size());
  std::memcpy(info.device_kind, device.identity().kind, sizeof info.device_kind);
  std::memcpy(info.device_uuid, device.identity().uuid, sizeof info.device_uuid);
  info.resident_blocks = static_cast<uint16_t>(std::min(device.resident_blocks(), int{UINT16_MAX}));
  info.min_blocks = static_cast<uint8_t>(std::min(options.min_blocks, int{UINT8_MAX}));
  info.max_blocks = static_cast<uint8_t>(std::min(options.max_blocks, int{UINT8_MAX}));
  SharedMemoryName name = page.name();
  info.pid = getpid();
  info.control_fd = name.fd;
  info.control_inode = name.inode;
  info.control_bytes = name.bytes;
  set_verdict(&info, status && !node ? node.status() : status);
  return info;
}

// Compares the parameters of two ranks that have no fault.
Status compare_params(const PeerInfo& info, const PeerInfo& first) {
  const EqualParams params = params_of(info), firsts = params_of(first);
  if (!(params == firsts))
    return Status(Code::invalid_usage,
                  "rank " + std::to_string(info.rank) + " " + params.difference_from(firsts, first.rank));
  if (info.tuning_hash == first.tuning_hash) return {};
  if (info.tuning_hash && first.tuning_hash)
    return Status::error(Code::invalid_usage,
                         "rank %d and rank 0 have tuning files with different content (parameter tuning_file, on this "
                         "rank '%s'): give all ranks the same file",
                         info.rank, gpucoll::params().tuning_file.c_str());
  return Status::error(Code::invalid_usage,
                       "rank %d has %s tuning file, but rank 0 has %s: set the parameter tuning_file on all ranks, or "
                       "on none",
                       info.rank, info.tuning_hash ? "a" : "no", first.tuning_hash ? "one" : "none");
}

// Returns the number of the formats that a rank's version speaks, the last digit of its magic: versions between two
// releases have one name.
int formats_of(const PeerInfo& info) { return static_cast<int>(info.magic & 0xff) - '0'; }

// Compares the versions. Of a rank that runs another one than this rank no other field can be read.
Status compare_versions(const std::vector<PeerInfo>& infos) {
  const PeerInfo& first = infos[0];
  for (const PeerInfo& info : infos)
    if (info.magic != first.magic || std::strncmp(info.version, first.version, sizeof info.version))
      return Status::error(Code::invalid_usage,
                           "rank %d runs gpucoll %.16s (formats %d) and rank 0 runs gpucoll %.16s (formats %d): "
                           "install one version everywhere",
                           info.rank, info.version, formats_of(info), first.version, formats_of(first));
  return {};
}

// Returns what keeps the ranks from working together; the same answer on every rank.
Status compare(const std::vector<PeerInfo>& infos) {
  GC_TRY(compare_versions(infos));
  const PeerInfo& first = infos[0];
  for (const PeerInfo& info : infos) {
    if (info.fault & kBlames)
      return Status::error(static_cast<Code>(info.fault & ~kBlames), "%.*s", static_cast<int>(sizeof info.said),
                           info.said)
          .blaming();
    if (info.fault)
      return Status::error(static_cast<Code>(info.fault), "rank %d (process %d): %.*s", info.rank, info.pid,
                           static_cast<int>(sizeof info.said), info.said);
  }
  for (const PeerInfo& info : infos) {
    GC_TRY(compare_params(info, first));
    if (!on_one_node(info, first) && !reaches_other_nodes())
      return Status::error(Code::invalid_usage,
                           "rank %d is on another node (or in another container) than rank 0, where the parameter "
                           "transport does not reach: set it to auto, verbs or tcp",
                           info.rank);
    if (std::strncmp(info.device_kind, first.device_kind, sizeof info.device_kind))
      return Status::error(Code::invalid_usage,
                           "rank %d uses the device kind %.8s and rank 0 uses %.8s: set the "
                           "parameter device for all ranks",
                           info.rank, info.device_kind, first.device_kind);
  }
  return {};
}

// Two ranks of one process cannot share a GPU: a call of one that waits for the whole device (cudaFree) would wait
// for the other's kernel, which waits for the first rank. Ranks of different processes may: they take turns, or
// run side by side, each with a block at least.
Status compare_devices(const std::vector<PeerInfo>& infos) {
  for (const PeerInfo& a : infos) {
    if (std::strncmp(a.device_kind, "cuda", sizeof a.device_kind)) return {};
    for (const PeerInfo& b : infos)
      if (a.rank < b.rank && a.pid == b.pid && on_one_node(a, b) && on_one_device(a, b))
        return Status::error(Code::invalid_usage,
                             "rank %d and rank %d are in one process (%d) and use the same GPU: choose a GPU for each "
                             "with cudaSetDevice before gpucollCommInitRank",
                             a.rank, b.rank, a.pid);
  }
  if (blocks_for_each(infos) == 0)
    return Status::error(Code::unsupported,
                         "more of the %zu ranks share a GPU than it runs blocks at once, so that their kernels would "
                         "wait for each other without end: use fewer ranks for each GPU",
                         infos.size());
  return {};
}

// Kernels of two processes on one GPU take turns, milliseconds each, where nothing lets them run side by side.
void warn_of_shared_device(const gpu::Device& device, int rank, const std::vector<PeerInfo>& infos) {
  if (device.shares_between_processes()) return;
  const PeerInfo& mine = infos[static_cast<size_t>(rank)];
  for (const PeerInfo& other : infos) {
    if (other.rank >= rank || !on_one_device(other, mine)) continue;
    return log::write(log::Level::warn,
                      "rank %d (process %d) and rank %d (process %d) use the same GPU, on which their kernels take "
                      "turns: that is very slow; choose a GPU for each, or start CUDA's MPS",
                      other.rank, other.pid, rank, mine.pid);
  }
}

bool are_on_several_nodes(const std::vector<PeerInfo>& infos) {
  return std::any_of(infos.begin(), infos.end(), [&](const PeerInfo& info) { return !on_one_node(info, infos[0]); });
}

// Returns kHasVerbs, or 0. Opens no RDMA device where nothing goes over it.
uint32_t verbs_fact(const std::vector<PeerInfo>& infos) {
  if (params().transport != kTransportAuto || !are_on_several_nodes(infos)) return 0;
  const Status usable = net::verbs_transport().usable();
  if (usable) return proto::kHasVerbs;
  const bool wished = !params().verbs_device.empty() || params().verbs_gid_index != kAuto;
  log::write(wished ? log::Level::warn : log::Level::info, "data between nodes go over TCP instead of RDMA: %s",
             usable.what());
  return 0;
}

uint32_t facts_of(const gpu::Device& device, int rank, const std::vector<PeerInfo>& infos) {
  uint32_t facts = verbs_fact(infos) | proto::kReachesAll | (device.keeps_lines_whole() ? proto::kKeepsLinesWhole : 0) |
                   (device.has_signals() ? proto::kHasSignals : 0);
  for (const PeerInfo& info : infos) {
    const bool here = on_one_node(info, infos[static_cast<size_t>(rank)]);
    const topo::Link link = here ? link_between(device, identity_of(info)) : topo::Link::network;
    if (link == topo::Link::host_memory || link == topo::Link::network) facts &= ~proto::kReachesAll;
    if (!takes_lines(link) && !gc_mutant(152)) facts &= ~proto::kKeepsLinesWhole;
  }
  return facts;
}

// Other ranks may have agreed, and would take this process for one that died once it has ended. The first call counts.
void tell_others(proto::ControlPage& own, const std::string& name, const Status& why) {
  if (own.fault != 0) return;
  std::snprintf(own.fault_text, sizeof own.fault_text, "%s", given_up(name, why).what());
  // Release: partner is Peers::fault().
  __atomic_store_n(&own.fault, static_cast<uint32_t>(why.code()), __ATOMIC_RELEASE);
}

}  // namespace

bool reaches_other_nodes() { return params().transport != kTransportP2p && params().transport != kTransportShm; }

int64_t timeout_of(const CommOptions& options) {
  if (options.waits_without_end && !is_param_set("timeout") && !gc_mutant(421)) return 0;
  return params().timeout;
}

bool on_one_node(const PeerInfo& a, const PeerInfo& b) { return !std::memcmp(a.node, b.node, sizeof a.node); }
// Containers of one machine may share a GPU.
bool on_one_device(const PeerInfo& a, const PeerInfo& b) {
  return !std::memcmp(a.device_uuid, b.device_uuid, sizeof a.device_uuid);
}

int blocks_for_each(const std::vector<PeerInfo>& infos) {
  int least = std::numeric_limits<int>::max();
  for (const PeerInfo& info : infos) {
    const auto sharing = static_cast<int>(
        std::count_if(infos.begin(), infos.end(), [&](const PeerInfo& other) { return on_one_device(other, info); }));
    const int blocks = info.resident_blocks / sharing;
    least = std::min(least, sharing == 1 ? blocks : (blocks + 1) / 2);
  }
  return least;
}

gpu::Identity identity_of(const PeerInfo& info) {
  gpu::Identity identity = {};
  std::memcpy(identity.kind, info.device_kind, sizeof identity.kind);
  std::memcpy(identity.uuid, info.device_uuid, sizeof identity.uuid);
  return identity;
}

Result<Peers> Peers::exchange(net::Bootstrap& bootstrap, const gpu::Device& device, const Status& mine,
                              const Surroundings& surroundings) {
  Peers peers;
  peers.numbers_ = surroundings.numbers;
  peers.bystanders_ = surroundings.bystanders;
  peers.rank_ = bootstrap.rank();
  peers.timeout_ = timeout_of(surroundings.options);
  peers.infos_.resize(static_cast<size_t>(bootstrap.size()));
  auto page = SharedMemory::create(proto::control_bytes(bootstrap.size()), "gpucoll-control");
  SharedMemory nothing;
  PeerInfo info =
      describe(peers.rank_, device, page ? *page : nothing, mine ? page.status() : mine, surroundings.options);
  GC_TRY(bootstrap.allgather(&info, peers.infos_.data(), sizeof info));
  GC_TRY(compare(peers.infos_));
  GC_TRY(compare_devices(peers.infos_));
  warn_of_shared_device(device, peers.rank_, peers.infos_);
  peers.pages_.resize(peers.infos_.size());
  peers.pages_[static_cast<size_t>(peers.rank_)] = std::move(*page);
  peers.own_page().magic = proto::kPeerMagic;
  peers.own_page().rank = peers.rank_;
  Heart::show(&peers.own_page().pulse);  // the others may wait for this rank before its watchdog looks again
  peers.common_facts_ = facts_of(device, peers.rank_, peers.infos_);
  if (are_on_several_nodes(peers.infos_))
    peers.remote_ = std::make_unique<RemotePages>(peers.rank_, peers.size(), peers.page_bytes(peers.rank_));
  // Opening may fail here and work elsewhere: agree before anybody relies on it.
  Status opened = contained([&] { return peers.open_pages(); });
  if (peers.remote_) {
    if (!opened) peers.remote_->withdraw();
    GC_TRY(peers.remote_->exchange_addresses(bootstrap));
    // Others may dial for long, and wait for this rank's verdict no longer.
    const auto watch = [&] { return peers.may_meet(bootstrap); };
    if (opened) opened = contained([&] { return peers.remote_->connect(watch, peers.timeout_); });
    if (!opened) tell_others(peers.own_page(), peers.name(peers.rank_), opened);
    peers.publish();
  }
  if (Status agreed = peers.agree(bootstrap, opened, &peers.common_facts_); !agreed) {
    if (!gc_mutant(134)) tell_others(peers.own_page(), peers.name(peers.rank_), agreed);
    peers.publish();
    return agreed;
  }
  if (peers.remote_) peers.remote_->hear_all();
  peers.pages_[static_cast<size_t>(peers.rank_)].close_name();
  return peers;
}

// Returns ok while there is reason to go on connecting. A rank that has died or failed comes first: what the bootstrap
// says may only follow from that.
Status Peers::may_meet(net::Bootstrap& bootstrap) const {
  GC_TRY(check());
  return bootstrap.look();
}

// Returns the death of another rank where that explains the failure, else the failure. A process lets its memory go a
// moment before its end can be seen.
Status Peers::cause_of(const Status& failure) const {
  if (failure || failure.blames() || failure.code() != Code::remote) return failure;
  const auto end = std::chrono::steady_clock::now() + kDying;
  do {
    for (size_t r = 0; r < liveness_.size(); ++r)
      if (!liveness_[r].alive())
        return Status::error(Code::remote, "%s died while the ranks met (%s)", name(static_cast<int>(r)).c_str(),
                             failure.what())
            .blaming();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  } while (std::chrono::steady_clock::now() < end);
  return failure;
}

Status Peers::agree(net::Bootstrap& bootstrap, const Status& mine, uint32_t* facts) const {
  PeerInfo verdict = info(rank_);
  set_verdict(&verdict, cause_of(mine));
  if (facts) verdict.facts = *facts;
  std::vector<PeerInfo> verdicts(infos_.size());
  GC_TRY(bootstrap.allgather(&verdict, verdicts.data(), sizeof verdict));
  GC_TRY(compare(verdicts));
  if (facts)
    for (const PeerInfo& other : verdicts) *facts &= other.facts;
  return {};
}

Status Peers::open_pages() {
  liveness_.resize(infos_.size());
  if (remote_) GC_TRY(remote_->listen());
  for (const PeerInfo& info : infos_) GC_TRY(open_page(info));
  return {};
}

Status Peers::open_page(const PeerInfo& info) {
  const auto place = static_cast<size_t>(info.rank);
  if (remote(info.rank)) {
    GC_TRY_AS(pages_[place], SharedMemory::create(proto::control_bytes(size()), "gpucoll-copy"));
    pages_[place].close_name();
    remote_->add(info.rank, page_bytes(info.rank));
    return {};
  }
  GC_TRY_AS(liveness_[place], Liveness::of(info.pid));
  if (info.rank == rank_) return {};
  GC_TRY_AS(pages_[place], SharedMemory::open({info.pid, info.control_fd, info.control_bytes, info.control_inode}));
  return {};
}

int Peers::min_blocks() const {
  int blocks = 0;
  for (const PeerInfo& info : infos_) blocks = std::max(blocks, int{info.min_blocks});
  return blocks;
}

int Peers::max_blocks() const {
  int blocks = std::numeric_limits<int>::max();
  for (const PeerInfo& info : infos_)
    if (info.max_blocks && !gc_mutant(341)) blocks = std::min(blocks, int{info.max_blocks});
  return blocks;
}

bool Peers::closing(int rank) const noexcept {
  return __atomic_load_n(&page(rank)->closing, __ATOMIC_ACQUIRE) != 0;  // partner: EndNotices::tell_closing
}

bool Peers::left(int rank) const noexcept {
  // Acquire: partner is EndNotices::tell_left().
  return closing(rank) || __atomic_load_n(&page(rank)->left, __ATOMIC_ACQUIRE) != 0 || dead(rank);
}

uint32_t Peers::fault(int rank) const noexcept {
  return __atomic_load_n(&page(rank)->fault, __ATOMIC_SEQ_CST);  // partners: Fault::raise, CopyMessages::start
}

uint64_t Peers::entered(int rank) const noexcept { return __atomic_load_n(&page(rank)->entered, __ATOMIC_ACQUIRE); }

bool Peers::gone(int rank) const noexcept { return closing(rank) || fault(rank) || dead(rank); }

bool Peers::has_launched_graphs(int rank) const noexcept {
  return __atomic_load_n(&page(rank)->begun, __ATOMIC_RELAXED) != 0;
}

bool Peers::held(int rank) const noexcept {
  return __atomic_load_n(&page(rank)->held, __ATOMIC_ACQUIRE) != 0 && !dead(rank);  // partner: GraphHold::tell
}

std::vector<int> Peers::node_numbers() const {
  std::map<std::string_view, int> known;
  std::vector<int> numbers;
  for (const PeerInfo& info : infos_) {
    const std::string_view node(reinterpret_cast<const char*>(info.node), sizeof info.node);
    numbers.push_back(known.emplace(node, static_cast<int>(known.size())).first->second);
  }
  return numbers;
}

Status Peers::check() const {
  // The dead first: the faults of the others may only be the consequence.
  for (int r = 0; r < size(); ++r) {
    if (r == rank_) continue;
    // The page after the process: it may have closed properly, or told its fault, and then ended.
    if (dead(r) && !closing(r) && !fault(r))
      return Status::error(Code::remote, "%s died%s: the communicator of %d ranks cannot go on", name(r).c_str(),
                           remote(r) ? ", or its host cannot be reached any more" : "", size())
          .blaming();
  }
  // Either side of a message may find it too long, but the receiver is to learn that it is, whoever else gave up since.
  int gave_up = -1;
  for (int r = 0; r < size(); ++r) {
    if (r == rank_ || !fault(r)) continue;
    if (static_cast<Code>(fault(r)) == Code::truncated) return fault_of(r, Code::truncated);
    if (gave_up < 0) gave_up = r;
  }
  return gave_up < 0 ? Status() : fault_of(gave_up, Code::remote);
}

Status Peers::fault_of(int rank, Code as) const {
  return Status::error(as, "%.*s", static_cast<int>(sizeof page(rank)->fault_text), page(rank)->fault_text).blaming();
}

std::string Peers::missing(uint64_t plans) const {
  std::string text;
  for (int r = 0; r < size(); ++r)
    if (r != rank_ && entered(r) < plans) text += (text.empty() ? "" : ", ") + name(r);
  return text;
}

std::string Peers::missing_in_graphs(uint64_t launches) const {
  std::string text;
  for (int r = 0; r < size(); ++r) {
    const uint64_t begun = __atomic_load_n(&page(r)->begun, __ATOMIC_RELAXED);  // it is told by the number alone
    if (r != rank_ && static_cast<int32_t>(launches - begun) > 0) text += (text.empty() ? "" : ", ") + name(r);
  }
  return text;
}

std::string Peers::name(int rank) const {
  const std::string host = remote_ && remote_->knows_hosts() ? " on host " + remote_->host(rank) : "";
  return "rank " + std::to_string(number(rank)) + " (process " + std::to_string(info(rank).pid) + host + ")";
}

bool Peers::silent(int rank) const noexcept {
  return Heart::silence(page(rank)->pulse, std::chrono::steady_clock::now()).count() > 0;
}

Status Peers::stopped(std::chrono::steady_clock::time_point since, long long waited_s) const {
  std::chrono::nanoseconds longest(0);
  std::string who;
  bool far = false;
  const auto look_at = [&](const gc_pulse& pulse, const std::string& name, bool is_remote) {
    const auto silence = Heart::silence(pulse, since);
    if (silence <= longest) return;
    who = name;
    longest = silence;
    far = is_remote;
  };
  for (int r = 0; r < size(); ++r)
    if (r != rank_) look_at(page(r)->pulse, name(r), remote(r));
  for (const Surroundings::Bystander& bystander : bystanders_) look_at(*bystander.pulse, bystander.name, false);
  if (who.empty()) return {};
  return core::stopped(who, longest, number(rank_), waited_s, far);
}

}  // namespace gpucoll::core
