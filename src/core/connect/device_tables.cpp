#include "core/connect/device_tables.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "core/connect/rings.h"
#include "core/connect/trees.h"

namespace gpucoll::core {
namespace {

constexpr size_t kLine = 128;
size_t round_up(size_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

}  // namespace

DeviceTables::Layout DeviceTables::layout_of(const DeviceTablesOptions& options) {
  const auto n = static_cast<size_t>(options.nodes.n_ranks());
  const auto channels = [&](int kind) { return static_cast<size_t>(options.channels[kind]); };
  Layout layout = {};
  layout.ring_ranks = round_up(sizeof(proto::DeviceComm));
  layout.line_mesh = round_up(layout.ring_ranks + proto::kMaxChannels * n * sizeof(int32_t));
  layout.end = round_up(layout.line_mesh + proto::kMaxChannels * sizeof(proto::LineMeshEnds));
  // Last: pages of them that stay empty cost nothing on the emulated device.
  for (int kind = 0; kind < proto::kLinkKinds; ++kind) {
    for (size_t& part : layout.connectors[kind]) {
      part = layout.end;
      layout.end += round_up(channels(kind) * n * sizeof(proto::Connector));
    }
  }
  return layout;
}

DeviceTables::DeviceTables(gpu::Device& device, const DeviceTablesOptions& options)
    : device_(device), options_(options), layout_(layout_of(options)) {
  for (int c = 0; c < proto::kMaxChannels; ++c) {
    const RingPlace place = ring_place(options_.nodes, options_.rank, c);
    next_[c] = place.next;
    prev_[c] = place.prev;
  }
}

Result<std::unique_ptr<DeviceTables>> DeviceTables::create(gpu::Device& device, const DeviceTablesOptions& options) {
  std::unique_ptr<DeviceTables> self(new DeviceTables(device, options));
  GC_TRY_AS(void* memory, device.allocate(self->layout_.end));
  self->base_ = static_cast<uint8_t*>(memory);
  const std::vector<uint8_t> image = self->first_image();
  GC_TRY(device.upload(memory, image.data(), image.size()));
  return self;
}

DeviceTables::~DeviceTables() {
  if (base_) device_.release(base_);
}

// All but the connectors, and what the allocation has zeroed.
std::vector<uint8_t> DeviceTables::first_image() const {
  std::vector<uint8_t> image(layout_.connectors[0][0]);
  auto* comm = new (image.data()) proto::DeviceComm{};
  auto* hops_of = reinterpret_cast<int32_t*>(image.data() + layout_.ring_ranks);
  for (int c = 0; c < proto::kMaxChannels; ++c, hops_of += n_ranks()) {
    set_up(&comm->channel[c], c);
    std::vector<int> ranks = ring_ranks(options_.nodes, c);
    std::rotate(ranks.begin(), ranks.begin() + comm->channel[c].ring_index, ranks.end());
    std::copy(ranks.begin(), ranks.end(), hops_of);
    std::copy_n(ranks.begin(), std::min(n_ranks(), proto::kNearRanks), comm->channel[c].near_ranks);
  }
  return image;
}

void DeviceTables::set_up(proto::ChannelComm* comm, int channel) const {
  const auto n = static_cast<size_t>(n_ranks()), first = static_cast<size_t>(channel) * n;
  comm->rank = options_.rank;
  comm->n_ranks = n_ranks();
  comm->n_channels = static_cast<uint32_t>(options_.channels[proto::kCollectiveLinks]);
  comm->n_pair_channels = static_cast<uint16_t>(options_.channels[proto::kPairLinks]);
  comm->network_mesh = options_.network_mesh ? 1 : 0;
  comm->latch = options_.latch;
  comm->doorbell = options_.doorbell;
  comm->line_mesh = reinterpret_cast<proto::LineMeshEnds*>(base_ + layout_.line_mesh) + channel;
  comm->ring_ranks = reinterpret_cast<const int32_t*>(base_ + layout_.ring_ranks) + first;
  for (int kind = 0; kind < proto::kLinkKinds; ++kind) {
    comm->shape[kind] = options_.slots[kind];
    if (channel >= options_.channels[kind]) continue;
    comm->send[kind] = reinterpret_cast<proto::Connector*>(base_ + layout_.connectors[kind][0]) + first;
    comm->recv[kind] = reinterpret_cast<proto::Connector*>(base_ + layout_.connectors[kind][1]) + first;
  }
  comm->tree = tree_place(options_.nodes, options_.rank, channel);
  comm->ring_index = ring_place(options_.nodes, options_.rank, channel).index;
  comm->ring_next = n > 1 ? next_[channel] : -1;
  comm->ring_prev = n > 1 ? prev_[channel] : -1;
}

size_t DeviceTables::offset_of(const PlacedConnector& placed) const {
  const bool sends = placed.side == net::Side::send;
  const auto channel = static_cast<size_t>(placed.channel), n = static_cast<size_t>(n_ranks());
  if (placed.kind == proto::kCollectiveLinks && placed.peer == (sends ? next_ : prev_)[placed.channel])
    return channel * sizeof(proto::ChannelComm) +
           (sends ? offsetof(proto::ChannelComm, ring_send) : offsetof(proto::ChannelComm, ring_recv));
  const size_t index = channel * n + static_cast<size_t>(placed.peer);
  return layout_.connectors[placed.kind][sends ? 0 : 1] + index * sizeof(proto::Connector);
}

// Neighbours in the table go up together.
Status DeviceTables::add(std::vector<PlacedConnector> connectors) {
  std::sort(connectors.begin(), connectors.end(),
            [&](const PlacedConnector& a, const PlacedConnector& b) { return offset_of(a) < offset_of(b); });
  std::vector<proto::Connector> run;
  for (size_t i = 0; i < connectors.size(); ++i) {
    run.push_back(connectors[i].connector);
    const size_t next = offset_of(connectors[i]) + sizeof(proto::Connector);
    if (i + 1 < connectors.size() && offset_of(connectors[i + 1]) == next) continue;
    const size_t bytes = run.size() * sizeof(proto::Connector);
    GC_TRY(device_.upload(base_ + next - bytes, run.data(), bytes));
    run.clear();
  }
  return {};
}

Status DeviceTables::set_mesh(std::span<void* const> buffers) {
  return set_buffers(buffers, proto::kMaxChannels, offsetof(proto::ChannelComm, mesh), sizeof(proto::ChannelComm));
}
Status DeviceTables::set_line_mesh(std::span<void* const> buffers) {
  return set_buffers(buffers, proto::kMaxChannels, layout_.line_mesh + offsetof(proto::LineMeshEnds, lines),
                     sizeof(proto::LineMeshEnds));
}
// Stores the buffers for each channel. `offset`: where the first channel's lie.
Status DeviceTables::set_buffers(std::span<void* const> buffers, size_t channels, size_t offset, size_t stride) {
  for (size_t c = 0; c < channels; ++c)
    GC_TRY(device_.upload(base_ + offset + c * stride, buffers.data(), buffers.size_bytes()));
  return {};
}

}  // namespace gpucoll::core
