// The part of a communicator that knows what it is made of: facts, connections and what kernels are told of them.
#include <algorithm>
#include <bit>
#include <cstring>

#include "base/log.h"
#include "base/params.h"
#include "core/communicator.h"
#include "core/trees.h"
#include "core/tuning_file.h"
#include "proto/pairs.h"

namespace gpucoll::core {
namespace {

using net::Side;
using proto::kCollectiveLinks;
using proto::kPairLinks;

constexpr Side kSides[] = {Side::send, Side::receive};

int chosen(int64_t parameter, int64_t otherwise) { return static_cast<int>(parameter ? parameter : otherwise); }

// The largest number of parts of a message, and so of lanes between two ranks.
int most_parts(const CommShape& shape) { return choose_pair(uint64_t{1} << 60, shape).parts; }

}  // namespace

// Settles what follows from parameters, device and peers.
void Communicator::prepare_links() {
  const gpu::Device::Defaults defaults = device_.defaults();
  const bool p2p = params().transport != kTransportShm && (peers_.common_facts() & proto::kReachesAll);
  facts_.channels = std::min(chosen(params().channels, defaults.channels), proto::kMaxChannels);
  facts_.pair_channels = static_cast<int>(std::bit_floor(
      static_cast<unsigned>(std::min(chosen(params().pair_channels, emulated() ? 4 : 32), proto::kMaxChannels))));
  facts_.threads = chosen(params().threads, defaults.threads);
  facts_.one_shot_bytes = params().one_shot_bytes ? static_cast<uint64_t>(params().one_shot_bytes)
                                                  : static_cast<uint64_t>(defaults.one_shot_bytes);
  facts_.mesh =
      p2p && size() > 1 && size() <= proto::kMeshMaxRanks && facts_.one_shot_bytes >= static_cast<uint64_t>(size());
  facts_.ll128 = p2p && (peers_.common_facts() & proto::kKeepsLinesWhole);
  const auto buffer = [](int64_t parameter, size_t otherwise) {
    return proto::connection_shape(parameter ? static_cast<uint64_t>(parameter) : otherwise);
  };
  facts_.slots[kCollectiveLinks] = buffer(params().buffer_bytes, defaults.buffer_bytes);
  if (!facts_.ll128) facts_.slots[kCollectiveLinks].ll128 = 0;
  facts_.slots[kPairLinks] = buffer(params().pair_buffer_bytes, emulated() ? size_t{64} << 10 : size_t{1} << 20);
  facts_.slots[kPairLinks].ll128 = 0;  // messages use Simple and LL only

  mailbox_ = make_page_mailbox(peers_);
  LinksOptions options = {};
  options.shape[kCollectiveLinks] = {facts_.channels, facts_.slots[kCollectiveLinks]};
  options.shape[kPairLinks] = {most_parts(plain_shape()), facts_.slots[kPairLinks]};
  options.force_shm = params().transport == kTransportShm;
  options.force_p2p = params().transport == kTransportP2p;
  links_ = std::make_unique<Links>(*mailbox_, peers_, memory_, device_, options);
}

CommShape Communicator::plain_shape() const {
  CommShape shape;
  shape.n_ranks = size();
  shape.n_channels = facts_.channels;
  shape.n_pair_channels = facts_.pair_channels;
  shape.threads = facts_.threads;
  shape.warp = device_.warp_threads();
  shape.emulated = emulated();
  shape.mesh = facts_.mesh;
  shape.ll128 = facts_.ll128;
  shape.one_shot_bytes = facts_.one_shot_bytes;
  shape.table = facts_.table;
  return shape;
}

Result<CommShape> Communicator::shape(const std::vector<gpu::Stream>& streams) {
  if (closing_) return Status::error(Code::invalid_usage, "the communicator has been finalised");
  CommShape shape = plain_shape();
  GC_TRY_AS(const uint64_t capture, Launcher::capture_of(device_, streams));
  shape.capturing = capture != 0;
  return shape;
}

// The tables that every launch needs, and the launcher over them.
Status Communicator::make_launcher() {
  auto* kernel_words = static_cast<HostWords*>(host_.kernel);
  if (!tables_) {
    DeviceTablesOptions options = {};
    options.rank = rank();
    options.n_ranks = size();
    options.channels[kCollectiveLinks] = facts_.channels;
    options.channels[kPairLinks] = facts_.pair_channels;
    std::copy(std::begin(facts_.slots), std::end(facts_.slots), options.slots);
    options.latch = &kernel_words->latch;
    GC_TRY_AS(tables_, DeviceTables::create(device_, options));
  }
  GC_TRY_AS(launcher_, Launcher::create({device_, fault_, rank(), move_, tables_->comm(), &words()->done,
                                         &kernel_words->done, &peers_.own_page().entered}));
  return {};
}

// A mesh that cannot be made is replaced by what else may carry its operations.
bool Communicator::needs_ring(const Needs& needs) const noexcept {
  return !ring_made_ && (needs.ring || (needs.mesh && !facts_.mesh));
}
bool Communicator::needs_tree(const Needs& needs) const noexcept {
  return !tree_made_ && (needs.tree || (needs.mesh && !facts_.mesh));
}

bool Communicator::connected(const Needs& needs) const noexcept {
  if (size() == 1) return true;
  if ((needs.mesh && facts_.mesh && !mesh_) || needs_ring(needs) || needs_tree(needs)) return false;
  const auto has = [&](Side side) { return [=, this](int peer) { return links_->has({kPairLinks, peer, side}); }; };
  return std::all_of(needs.send_to.begin(), needs.send_to.end(), has(Side::send)) &&
         std::all_of(needs.receive_from.begin(), needs.receive_from.end(), has(Side::receive));
}

Status Communicator::connect(const Needs& needs, void (*idle)()) {
  if (fault().raised()) return fault_.status();
  Vigil vigil(fault_, peers_, idle);
  Status status = contained([&] { return make_connections(needs, vigil); });
  if (!status) fault_.raise(status);
  return status;
}

Status Communicator::make_connections(const Needs& needs, Vigil& vigil) {
  if (!launcher_) GC_TRY(make_launcher());
  if (size() == 1) return {};
  if (needs.mesh && facts_.mesh && !mesh_) GC_TRY(make_mesh(vigil));
  const bool ring = needs_ring(needs), tree = needs_tree(needs);
  const std::vector<LinkName> names = missing_links(needs);
  Status status = contained([&]() -> Status {
    GC_TRY(links_->make(names, vigil));
    return tell_kernels(names);
  });
  // Links for collectives are made by all ranks at once, and are good for all or none.
  if (ring || tree) status = agree_on_links(status, vigil);
  GC_TRY(std::move(status));
  ring_made_ |= ring;
  tree_made_ |= tree;
  return {};
}

Status Communicator::make_mesh(Vigil& vigil) {
  mesh_tried_ = true;
  MailboxBootstrap bootstrap(*mailbox_, vigil, peers_);
  GC_TRY_AS(mesh_, Mesh::connect(bootstrap, peers_, memory_));
  facts_.mesh = mesh_ != nullptr;
  return mesh_ ? tables_->set_mesh(mesh_->buffers()) : Status();
}

std::vector<LinkName> Communicator::missing_links(const Needs& needs) const {
  std::vector<LinkName> names;
  const auto want = [&](const LinkName& name) {
    if (!links_->has(name) && std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  };
  if (needs_ring(needs)) {
    want({kCollectiveLinks, (rank() + 1) % size(), Side::send});
    want({kCollectiveLinks, (rank() + size() - 1) % size(), Side::receive});
  }
  if (needs_tree(needs))
    for (int peer : tree_neighbours(size(), rank(), facts_.channels))
      for (Side side : kSides) want({kCollectiveLinks, peer, side});
  for (int peer : needs.send_to) want({kPairLinks, peer, Side::send});
  for (int peer : needs.receive_from) want({kPairLinks, peer, Side::receive});
  return names;
}

Status Communicator::tell_kernels(const std::vector<LinkName>& names) {
  std::vector<PlacedConnector> placed;
  for (const LinkName& name : names) {
    const int hops = name.side == Side::send ? name.peer - rank() : rank() - name.peer;
    const auto distance = static_cast<uint32_t>((hops + size()) % size());
    for (int lane = 0; lane < links_->shape(name.kind).lanes; ++lane) {
      const int channel = name.kind == kCollectiveLinks
                              ? lane
                              : static_cast<int>(proto::pair_channel(distance, static_cast<uint32_t>(lane),
                                                                     static_cast<uint32_t>(facts_.pair_channels)));
      placed.push_back({name.kind, name.side, channel, name.peer, links_->end(name).connector(lane)});
    }
  }
  return tables_->add(std::move(placed));
}

Status Communicator::agree_on_links(const Status& mine, Vigil& vigil) {
  MailboxBootstrap bootstrap(*mailbox_, vigil, peers_);
  uint32_t p2p = links_->all_p2p() ? proto::kReachesAll : 0;
  GC_TRY(peers_.agree(bootstrap, mine, &p2p));
  if (!p2p) facts_.ll128 = false;
  log::write(log::Level::info, "rank %d of %d on %s: %d channels of %d threads, %u bytes a step, links %s%s", rank(),
             size(), device_.identity().name, facts_.channels, facts_.threads, facts_.slots[kCollectiveLinks].simple,
             p2p ? "over p2p" : "not all over p2p", mesh_ ? ", and a mesh" : "");
  return {};
}

}  // namespace gpucoll::core
