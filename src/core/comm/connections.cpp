#include "core/comm/connections.h"

#include <algorithm>

#include "base/log.h"
#include "base/params.h"
#include "core/plan/copy_engine_reduction.h"
#include "proto/format/line_mesh.h"
#include "proto/format/zero_copy.h"

namespace gpucoll::core {

using proto::kCollectiveLinks;
using proto::kPairLinks;

Connections::Connections(const ConnectionsContext& context, const TuningTable* table, const CommOptions& options)
    : context_(context),
      nodes_(context.peers.node_numbers()),
      capabilities_(capabilities_of(context.device, context.peers, nodes_, table, options)),
      memory_(context.device),
      mailbox_(make_page_mailbox(context.peers)) {
  LinksOptions its = {};
  std::copy(std::begin(capabilities_.slots), std::end(capabilities_.slots), its.slots);
  its.transport = params().transport;
  its.activity = context.activity;
  if (properties().network) message_counts_ = std::make_unique<MessageCounts>(size());
  its.counts = message_counts_.get();
  links_ = std::make_unique<Links>(*mailbox_, context.peers, memory_, context.device, its, context.causes);
  const ChannelLinks::Limits limits = {properties().n_channels, properties().n_pair_channels, capabilities_.pair_lanes};
  channel_links_ = std::make_unique<ChannelLinks>(nodes_, rank(), *links_, limits);
}

Status Connections::make_tables(proto::FaultLatch* latch, proto::Doorbell* doorbell) {
  const bool network_mesh = properties().mesh && properties().network;
  DeviceTablesOptions options = {rank(), nodes_, {}, {}, latch, doorbell, network_mesh};
  options.channels[kCollectiveLinks] = properties().n_channels;
  options.channels[kPairLinks] = properties().n_pair_channels;
  std::copy(std::begin(capabilities_.slots), std::end(capabilities_.slots), options.slots);
  GC_TRY_AS(tables_, DeviceTables::create(context_.device, options));
  return {};
}

// Whatever cannot be made must be replaced by what else may carry its operations.
ChannelNeeds Connections::channel_needs(const Requirements& required) const noexcept {
  const bool replaces = (required.mesh && !properties().mesh) || (required.line_mesh && !properties().line_mesh) ||
                        (required.copy_reductions && !properties().copies.reductions);
  return channel_links_->needs(required, replaces);
}

bool Connections::has(const Requirements& required) const noexcept {
  if (size() == 1) return true;
  if (needs_mesh(required) || needs_line_mesh(required) || needs_landing(required)) return false;
  return !channel_needs(required).any() && channel_links_->has_pairs(required);
}

Status Connections::make(const Requirements& required, PeerWait& wait) {
  if (size() == 1) return {};
  const bool mesh = needs_mesh(required), line_mesh = needs_line_mesh(required), landing = needs_landing(required);
  if (mesh || line_mesh || landing || channel_needs(required).any()) GC_TRY(compare(required, wait));
  if (mesh) GC_TRY(make_mesh(wait));
  if (line_mesh) GC_TRY(make_line_mesh(wait));
  if (landing) GC_TRY(make_landing(wait));
  const ChannelNeeds needs = channel_needs(required);
  Status status = contained([&] { return channel_links_->make(required, needs, *tables_, wait); });
  // Links for collectives are made by all ranks at once, and are good for all or none.
  if (needs.any()) status = agree_on_links(status, wait);
  GC_TRY(std::move(status));
  channel_links_->keep(needs);
  return {};
}

// Calls that do not fit together would wait for different connections, or make two ends of different size.
Status Connections::compare(const Requirements& required, PeerWait& wait) {
  struct Wanted {
    int32_t mesh, line_mesh, landing, ring, chain, tree, channels;
    bool operator==(const Wanted&) const = default;
  };
  const ChannelNeeds needs = channel_needs(required);
  const Wanted mine = {
      needs_mesh(required), needs_line_mesh(required), needs_landing(required), needs.ring, needs.chain, needs.tree,
      needs.channels};
  std::vector<Wanted> all(static_cast<size_t>(size()));
  MailboxBootstrap bootstrap(*mailbox_, wait, Purpose::connections, context_.peers);
  GC_TRY(bootstrap.allgather(&mine, all.data(), sizeof mine));
  for (int r = 0; r < size(); ++r) {
    if (all[static_cast<size_t>(r)] == mine) continue;
    GC_TRY(context_.calls.compare());  // which can say more, unless these are in captures
    return Status::error(Code::invalid_usage,
                         "rank %d and %s connect for different operations: all ranks must make the same collective "
                         "calls in the same order, with the same count, datatype, op and root",
                         rank(), context_.peers.name(r).c_str());
  }
  return {};
}

Status Connections::make_mesh(PeerWait& wait) {
  if (properties().network) return make_network_mesh(wait);
  mesh_ = std::make_unique<Mesh>(context_.peers, memory_, proto::mesh_bytes(size()), context_.causes);
  GC_TRY_AS(capabilities_.properties.mesh, connect_mesh(&mesh_, wait));
  return mesh_ ? tables_->set_mesh(mesh_->buffers()) : Status();
}

// It is good for all ranks or none.
Status Connections::make_network_mesh(PeerWait& wait) {
  GC_TRY_AS(network_mesh_, NetworkMesh::create(rank(), size(), memory_));
  MailboxBootstrap bootstrap(*mailbox_, wait, Purpose::connections, context_.peers);
  uint32_t nothing = 0;
  if (nodes_.some_have_several()) {
    const Status opened = contained([&] { return open_network_mesh(bootstrap); });
    GC_TRY(context_.peers.agree(bootstrap, opened, &nothing));
  }
  network_mesh_->close_name();
  Status status = contained([&] { return links_->make(network_mesh_->links(), wait); });
  GC_TRY(context_.peers.agree(bootstrap, status, &nothing));
  return tables_->set_mesh(network_mesh_->buffers());
}

// Opens the memory of the ranks of this node, unless the user wants sockets inside of nodes as well.
Status Connections::open_network_mesh(net::Bootstrap& bootstrap) {
  const SharedMemoryName mine = network_mesh_->name();
  std::vector<SharedMemoryName> names(static_cast<size_t>(size()));
  GC_TRY(bootstrap.allgather(&mine, names.data(), sizeof mine));
  if (params().transport == kTransportTcp) return {};
  for (const int peer : nodes_.ranks(nodes_.node_of(rank())))
    if (peer != rank()) GC_TRY(network_mesh_->open(peer, names[static_cast<size_t>(peer)]));
  return {};
}

Status Connections::make_line_mesh(PeerWait& wait) {
  line_mesh_ = std::make_unique<Mesh>(context_.peers, memory_, proto::line_mesh_bytes(size()), context_.causes);
  GC_TRY_AS(capabilities_.properties.line_mesh, connect_mesh(&line_mesh_, wait));
  return line_mesh_ ? tables_->set_line_mesh(line_mesh_->buffers()) : Status();
}

Status Connections::make_landing(PeerWait& wait) {
  // Copies go into it: so it is to share its block of memory with nothing else (gpu/cuda/imports.h).
  const uint64_t bytes = std::max<uint64_t>(landing_bytes(properties()), gpu::kMemoryBlock);
  landing_ = std::make_unique<Mesh>(context_.peers, memory_, bytes, context_.causes);
  GC_TRY_AS(lands_, connect_mesh(&landing_, wait));
  if (!lands_) capabilities_.properties.copies.reductions = 0;
  return {};
}

// Returns false where there can be none. A mesh is kept even if it fails here: others may have succeeded, and their
// kernels store into this rank's buffer.
Result<bool> Connections::connect_mesh(std::unique_ptr<Mesh>* mesh, PeerWait& wait) {
  mesh_tried_ = true;
  MailboxBootstrap bootstrap(*mailbox_, wait, Purpose::connections, context_.peers);
  GC_TRY_AS(const bool connected, (*mesh)->connect(bootstrap));
  if (!connected) mesh->reset();
  return connected;
}

Status Connections::agree_on_links(const Status& mine, PeerWait& wait) {
  MailboxBootstrap bootstrap(*mailbox_, wait, Purpose::connections, context_.peers);
  uint32_t p2p = links_->all_p2p() ? proto::kReachesAll : 0;
  GC_TRY(context_.peers.agree(bootstrap, mine, &p2p));
  if (!p2p) capabilities_.properties.ll128 = false;
  log::write(log::Level::info, "rank %d of %d on %s: %d channels of %d threads, %u bytes a step, links %s%s", rank(),
             size(), context_.device.identity().name, properties().n_channels, properties().threads,
             capabilities_.slots[kCollectiveLinks].simple,
             p2p                    ? "over p2p"
             : properties().network ? links_->over_network()
                                    : "not all over p2p",
             mesh_ || network_mesh_ ? ", and a mesh" : "");
  return {};
}

Status Connections::look_at_links(bool launched, uint64_t launches) {
  links_->expect_ends();
  bool certain = true;
  Status broken = links_->check(launched, &certain);
  if (broken) {
    link_breaks_.none();
    return broken;
  }
  return link_breaks_.counts(certain, launches, RunningClock::now()) ? std::move(broken) : Status();
}

}  // namespace gpucoll::core
