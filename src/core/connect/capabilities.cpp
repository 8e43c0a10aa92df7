#include "core/connect/capabilities.h"

#include <algorithm>
#include <bit>

#include "base/params.h"
#include "core/plan/collective_send_recv.h"
#include "core/plan/copy_engine_limits.h"
#include "core/plan/copy_engine_reduction.h"
#include "core/plan/tuning_file.h"
#include "proto/format/mesh.h"

namespace gpucoll::core {
namespace {

using proto::kCollectiveLinks;
using proto::kPairLinks;

// As many as keep the host's thread busy.
constexpr int kNetworkChannels = 4;
constexpr uint64_t kNetworkBuffer = uint64_t{1} << 20;  // what is sent from it stays in the processor's cache
constexpr uint64_t kPairBuffer = uint64_t{1} << 20, kPairBufferEmulated = uint64_t{64} << 10;

// Returns whether all links between nodes go over sockets.
bool goes_over_tcp(const Peers& peers) {
  if (params().transport == kTransportTcp) return true;
  return params().transport == kTransportAuto && !(peers.common_capabilities() & proto::kHasVerbs);
}

// Sets how many blocks, channels and threads operations may have.
void set_sizes(CommProperties* properties, const gpu::Device& device, const Peers& peers) {
  const gpu::Device::Defaults defaults = device.defaults();
  // Blocks that wait for others run beside these, whoever else is on the device.
  const int most = std::min({proto::kMaxChannels, peers.most_blocks(), peers.max_blocks()});
  const int least = std::min(peers.min_blocks(), most);  // the program's wish
  const auto fitting = [&](int64_t parameter, int channels) {
    const int by_default = properties->network ? std::min(channels, kNetworkChannels) : channels;
    return std::clamp(param_or(parameter, by_default), least, most);
  };
  properties->most_blocks = most;
  properties->max_blocks = peers.max_blocks();
  properties->n_channels = fitting(params().channels, defaults.channels);
  properties->n_pair_channels = static_cast<int>(
      std::bit_floor(static_cast<unsigned>(fitting(params().send_recv_channels, defaults.pair_channels))));
  properties->warp = device.warp_threads();  // barriers of a GPU are for whole warps
  properties->threads =
      (param_or(params().threads, defaults.threads) + properties->warp - 1) / properties->warp * properties->warp;
}

// Returns whether the ranks may have a mesh over sockets. Where nodes have several ranks, each of which sends to all
// ranks of the other nodes, a ring is as fast from three of these on (docs/adr/0068).
bool may_have_network_mesh(const Nodes& nodes) {
  constexpr int kMostElsewhere = 2;
  if (!nodes.some_have_several()) return nodes.n_ranks() <= kMostExchanging;
  int least = nodes.n_ranks();  // ranks of a node
  for (int node = 0; node < nodes.size(); ++node) least = std::min(least, static_cast<int>(nodes.ranks(node).size()));
  return nodes.n_ranks() - least <= kMostElsewhere;
}

// Sets which operations may use a mesh, as far as the facts say: it may turn out to be impossible.
void set_meshes(CommProperties* properties, const gpu::Device& device, const Peers& peers, const Nodes& nodes) {
  const gpu::Device::Defaults defaults = device.defaults();
  const int size = peers.size();
  const bool p2p = goes_over_p2p(peers);
  properties->one_shot_bytes = param_or(params().one_shot_bytes, defaults.one_shot_bytes);
  properties->all_pairs_bytes = param_or(params().all_pairs_bytes, defaults.all_pairs_bytes);
  int most_ranks = p2p ? proto::kMeshMaxRanks : 0;
  if (properties->network && goes_over_tcp(peers)) {
    const uint64_t most = param_or(params().exchange_bytes, proto::kNetworkMeshData) * static_cast<uint64_t>(size);
    properties->one_shot_bytes = std::min(properties->one_shot_bytes, most);
    most_ranks = may_have_network_mesh(nodes) ? size : 0;
  }
  properties->mesh = size > 1 && size <= most_ranks && properties->one_shot_bytes >= static_cast<uint64_t>(size);
  properties->ll128 = p2p && (peers.common_capabilities() & proto::kKeepsLinesWhole);
  properties->line_mesh = properties->mesh && properties->ll128 && properties->all_pairs_bytes != 0;
  if (properties->mesh && p2p) properties->zero_copy_bytes = least_zero_copy(defaults, size, properties->table);
}

// Returns what goes by copy engine: whatever streams of all ranks can wait for.
CopyEngineLimits copies_of(const CommProperties& properties, const gpu::Device& device, const Peers& peers,
                           const CommOptions& options) {
  if (properties.network || !(peers.common_capabilities() & proto::kHasSignals)) return {};
  const CopyEngineLimits limits =
      copy_engine_limits(device.defaults(), peers.size(), properties.table, options.stream_ordered);
  return limits.messages || limits.reductions ? limits : CopyEngineLimits();
}

// Returns what of that goes by copy engine for certain.
CopyEngineLimits certain_copies(const CopyEngineLimits& copies, const Peers& peers) {
  if (copies == CopyEngineLimits() || !goes_over_p2p(peers)) return {};
  CopyEngineLimits certain = copies;
  if (peers.size() > proto::kMeshMaxRanks) certain.reductions = 0;
  certain.piece = copy_piece_bytes(copies.piece);
  return certain;
}

// Returns the largest number of parts of a message, and so of lanes between two ranks.
int most_parts(const CommProperties& properties) { return choose_pair(uint64_t{1} << 60, properties).parts; }

}  // namespace

bool goes_over_network(const Peers& peers) {
  const int64_t transport = params().transport;
  return peers.on_several_nodes() || ((transport == kTransportTcp || transport == kTransportVerbs) && peers.size() > 1);
}

bool goes_over_p2p(const Peers& peers) {
  return params().transport != kTransportShm && !goes_over_network(peers) &&
         (peers.common_capabilities() & proto::kReachesAll);
}

Capabilities capabilities_of(const gpu::Device& device, const Peers& peers, const Nodes& nodes,
                             const TuningTable* table, const CommOptions& options) {
  Capabilities its;
  CommProperties& properties = its.properties;
  properties.n_ranks = peers.size();
  properties.emulated = device.is_emulated();
  properties.network = goes_over_network(peers);
  properties.table = table;
  set_sizes(&properties, device, peers);
  set_meshes(&properties, device, peers, nodes);
  its.copies = copies_of(properties, device, peers, options);
  properties.copies = certain_copies(its.copies, peers);
  its.pair_lanes = most_parts(properties);

  const uint64_t default_bytes = device.defaults().buffer_bytes;
  const uint64_t buffer_bytes = properties.network ? std::min(default_bytes, kNetworkBuffer) : default_bytes;
  its.slots[kCollectiveLinks] = proto::connection_shape(param_or(params().buffer_bytes, buffer_bytes));
  if (!properties.ll128) its.slots[kCollectiveLinks].ll128 = 0;
  const uint64_t pair_buffer = properties.emulated ? kPairBufferEmulated : kPairBuffer;
  its.slots[kPairLinks] = proto::connection_shape(param_or(params().send_recv_buffer_bytes, pair_buffer));
  its.slots[kPairLinks].ll128 = 0;  // messages use Simple and LL only
  return its;
}

}  // namespace gpucoll::core
