// The part of a communicator that knows what it is made of: facts, connections and what kernels are told of them.
#include <algorithm>
#include <bit>
#include <cstring>

#include "base/log.h"
#include "base/observe/trace.h"
#include "base/params.h"
#include "core/comm/communicator.h"
#include "core/plan/copy_engine_limits.h"
#include "core/plan/copy_engine_reduction.h"
#include "core/plan/tuning_file.h"
#include "proto/format/line_mesh.h"
#include "proto/format/zero_copy.h"

namespace gpucoll::core {
namespace {

using proto::kCollectiveLinks;
using proto::kPairLinks;

// As many as keep the host's thread busy.
constexpr int kNetworkChannels = 4;
constexpr uint64_t kNetworkBuffer = uint64_t{1} << 20;  // what is sent from it stays in the processor's cache
constexpr uint64_t kPairBuffer = uint64_t{1} << 20, kPairBufferEmulated = uint64_t{64} << 10;
// Large enough to hide what starting a copy costs.
constexpr uint64_t kBouncePiece = uint64_t{16} << 20, kBouncePieceEmulated = uint64_t{256} << 10;
// From where on direct stores save more than they cost before they begin.
constexpr uint64_t kDirectBytes = uint64_t{1} << 20, kDirectBytesEmulated = uint64_t{16} << 10;

// The largest number of parts of a message, and so of lanes between two ranks.
int most_parts(const CommProperties& shape) { return choose_pair(uint64_t{1} << 60, shape).parts; }

// How long kernels may stay.
std::chrono::microseconds linger_bound(gpu::Device& device) {
  return std::chrono::microseconds(param_or(params().resident_us, device.defaults().linger_us));
}

}  // namespace

// Settles what follows from parameters, device and peers. Fails where there is no memory for it, or no thread.
Status Communicator::prepare() {
  if (params().transport == kTransportAuto && peers_.on_several_nodes() &&
      !(peers_.common_capabilities() & proto::kHasVerbs))
    causes_->tell(Cause::no_rdma, "a connection");
  prepare_links();
  prepare_copies();
  prepare_direct();
  return {};
}

// Returns whether some links go over a network.
bool Communicator::over_network() const {
  const int64_t transport = params().transport;
  return peers_.on_several_nodes() || ((transport == kTransportTcp || transport == kTransportVerbs) && size() > 1);
}

// As far as the facts go: a link may still turn out to be another.
bool Communicator::p2p_everywhere() const {
  return params().transport != kTransportShm && !over_network() && (peers_.common_capabilities() & proto::kReachesAll);
}

// Returns whether the links between all ranks go over sockets.
bool Communicator::tcp_everywhere() const {
  if (params().transport == kTransportTcp) return true;
  return params().transport == kTransportAuto && nodes().size() == size() &&
         !(peers_.common_capabilities() & proto::kHasVerbs);
}

void Communicator::prepare_links() {
  nodes_.emplace(peers_.node_numbers());
  const gpu::Device::Defaults defaults = device_.defaults();
  const bool p2p = p2p_everywhere();
  // Blocks that wait for others run beside these, whoever else is on the device.
  const int most = std::min({proto::kMaxChannels, peers_.most_blocks(), peers_.max_blocks()});
  const int least = std::min(peers_.min_blocks(), most);  // the program's wish
  capabilities_.most_blocks = most;
  capabilities_.max_blocks = peers_.max_blocks();
  const auto least_of = [&](int channels) { return over_network() ? std::min(channels, kNetworkChannels) : channels; };
  const auto within = [&](int channels) { return std::clamp(channels, least, most); };
  capabilities_.channels = within(param_or(params().channels, least_of(defaults.channels)));
  capabilities_.pair_channels = static_cast<int>(std::bit_floor(
      static_cast<unsigned>(within(param_or(params().send_recv_channels, least_of(defaults.pair_channels))))));
  const int warp = device_.warp_threads();  // barriers of a GPU are for whole warps
  capabilities_.threads = (param_or(params().threads, defaults.threads) + warp - 1) / warp * warp;
  capabilities_.one_shot_bytes = param_or(params().one_shot_bytes, defaults.one_shot_bytes);
  int most_in_mesh = p2p ? proto::kMeshMaxRanks : 0;
  if (over_network() && tcp_everywhere()) {
    const uint64_t most = param_or(params().exchange_bytes, proto::kNetworkMeshData) * static_cast<uint64_t>(size());
    capabilities_.one_shot_bytes = std::min(capabilities_.one_shot_bytes, most);
    most_in_mesh = kMostExchanging;
  }
  capabilities_.mesh =
      size() > 1 && size() <= most_in_mesh && capabilities_.one_shot_bytes >= static_cast<uint64_t>(size());
  capabilities_.ll128 = p2p && (peers_.common_capabilities() & proto::kKeepsLinesWhole);
  capabilities_.all_pairs_bytes = param_or(params().all_pairs_bytes, defaults.all_pairs_bytes);
  if (capabilities_.mesh && p2p) capabilities_.zero_copy_bytes = least_zero_copy(defaults, size(), capabilities_.table);
  capabilities_.line_mesh = capabilities_.mesh && capabilities_.ll128 && capabilities_.all_pairs_bytes != 0;
  const uint64_t buffer_bytes =
      over_network() ? std::min(defaults.buffer_bytes, kNetworkBuffer) : uint64_t{defaults.buffer_bytes};
  capabilities_.slots[kCollectiveLinks] = proto::connection_shape(param_or(params().buffer_bytes, buffer_bytes));
  if (!capabilities_.ll128) capabilities_.slots[kCollectiveLinks].ll128 = 0;
  const uint64_t pair_buffer = emulated() ? kPairBufferEmulated : kPairBuffer;
  capabilities_.slots[kPairLinks] = proto::connection_shape(param_or(params().send_recv_buffer_bytes, pair_buffer));
  capabilities_.slots[kPairLinks].ll128 = 0;  // messages use Simple and LL only

  capabilities_.pair_lanes = most_parts(plain_shape());

  mailbox_ = make_page_mailbox(peers_);
  ids_.emplace(*mailbox_, peers_);
  LinksOptions options = {};
  std::copy(std::begin(capabilities_.slots), std::end(capabilities_.slots), options.slots);
  options.transport = params().transport;
  options.activity = [this] { return activity(); };
  if (over_network()) message_counts_ = std::make_unique<MessageCounts>(size());
  options.counts = message_counts_.get();
  links_ = std::make_unique<Links>(*mailbox_, peers_, memory_, device_, options, *causes_);
  channel_links_.emplace(
      *nodes_, rank(), *links_,
      ChannelLinks::Limits{capabilities_.channels, capabilities_.pair_channels, capabilities_.pair_lanes});
}

// Returns whether kernels of this communicator may have steps under way. Any thread.
KernelActivity Communicator::activity() const noexcept {
  if (device_failed()) return KernelActivity::none;
  if (launching_.load(std::memory_order_acquire)) return KernelActivity::launched;
  const uint64_t launched = launched_.load(std::memory_order_acquire);
  // Acquire: partner is the release of the done word by the kernel's last block.
  if (__atomic_load_n(&words()->done, __ATOMIC_ACQUIRE) < launched) return KernelActivity::launched;
  return in_graphs() ? KernelActivity::in_graphs : KernelActivity::none;
}

// Whatever streams of all ranks can wait for goes by copy engines where their links turn out to be over p2p.
void Communicator::prepare_copies() {
  exports_ = std::make_unique<Exports>(device_, peers_.copy_page(rank()).live);
  if (over_network()) return;
  const CopyEngineLimits limits =
      copy_engine_limits(device_.defaults(), size(), capabilities_.table, options().stream_ordered);
  if ((!limits.messages && !limits.reductions) || !(peers_.common_capabilities() & proto::kHasSignals)) return;
  if (p2p_everywhere()) {
    capabilities_.copies = limits;
    if (size() > proto::kMeshMaxRanks) capabilities_.copies.reductions = 0;
    capabilities_.copies.piece = copy_piece_bytes(limits.piece);
  }
  const uint64_t piece = emulated() ? kBouncePieceEmulated : kBouncePiece;
  copies_ = std::make_unique<CopyEngines>(
      CopyContext{device_, fault_, peers_, *links_, *exports_, limits, piece, device_state_.get()});
}

void Communicator::prepare_direct() {
  const uint64_t least = param_or(params().direct_bytes, emulated() ? kDirectBytesEmulated : kDirectBytes);
  if (least != 0 && size() > 1 && !over_network())
    user_buffers_ = std::make_unique<UserBuffers>(
        DirectContext{device_, peers_, *links_, *exports_, least, launched_, words()->done, *causes_});
}

CommProperties Communicator::plain_shape() const {
  CommProperties shape;
  shape.n_ranks = size();
  shape.n_channels = capabilities_.channels;
  shape.n_pair_channels = capabilities_.pair_channels;
  shape.most_blocks = capabilities_.most_blocks;
  shape.max_blocks = capabilities_.max_blocks;
  shape.threads = capabilities_.threads;
  shape.warp = device_.warp_threads();
  shape.emulated = emulated();
  shape.mesh = capabilities_.mesh;
  shape.line_mesh = capabilities_.line_mesh;
  shape.ll128 = capabilities_.ll128;
  shape.network = over_network();
  shape.one_shot_bytes = capabilities_.one_shot_bytes;
  shape.all_pairs_bytes = capabilities_.all_pairs_bytes;
  shape.exchange_bytes = exchange_memory_ ? most_exchanged_bytes(size(), nodes().size()) : 0;
  shape.zero_copy_bytes = capabilities_.zero_copy_bytes;
  shape.copies = capabilities_.copies;
  shape.table = capabilities_.table;
  shape.algorithm = params().algorithm;
  shape.protocol = params().protocol;
  return shape;
}

Result<CommProperties> Communicator::shape(const std::vector<gpu::Stream>& streams) {
  if (closing_) return Status::error(Code::invalid_usage, "the communicator has been finalised");
  CommProperties shape = plain_shape();
  GC_TRY_AS(const uint64_t capture, Launcher::capture_of(device_, streams));
  shape.capturing = capture != 0;
  if (shape.capturing) shape.copies = {.piece = shape.copies.piece};
  return shape;
}

// The tables that every launch needs, and the launcher over them.
Status Communicator::make_launcher() {
  auto* kernel_words = static_cast<HostWords*>(host_.kernel);
  if (!tables_) {
    DeviceTablesOptions options = {rank(), nodes(), {}, {}, nullptr, nullptr, capabilities_.mesh && over_network()};
    options.channels[kCollectiveLinks] = capabilities_.channels;
    options.channels[kPairLinks] = capabilities_.pair_channels;
    std::copy(std::begin(capabilities_.slots), std::end(capabilities_.slots), options.slots);
    options.latch = &kernel_words->latch;
    options.doorbell = &kernel_words->doorbell;
    GC_TRY_AS(tables_, DeviceTables::create(device_, options));
  }
  if (!resident_) resident_.emplace(words()->doorbell, linger_bound(device_));
  if (most_exchanged_bytes(size(), nodes().size()) && !capabilities_.mesh && !exchange_memory_) {
    GC_TRY_AS(void* const memory, device_.allocate(exchange_memory_bytes(size())));
    exchange_memory_ = static_cast<uint8_t*>(memory);
  }
  LaunchContext context = {device_,
                           fault_,
                           rank(),
                           kernels_.move,
                           tables_->comm(),
                           &words()->done,
                           &kernel_words->done,
                           &peers_.own_page().entered,
                           user_buffers_.get(),
                           &*resident_,
                           &kernel_words->in_graphs,
                           &hold_,
                           this,
                           causes_.get(),
                           &words()->in_graphs,
                           device_state_.get()};
  GC_TRY_AS(launcher_, Launcher::create(context));
  return {};
}

// Whatever cannot be made must be replaced by what else may carry its operations.
ChannelNeeds Communicator::channel_needs(const Requirements& required) const noexcept {
  const bool replaces = (required.mesh && !capabilities_.mesh) || (required.line_mesh && !capabilities_.line_mesh) ||
                        (required.copy_reductions && !capabilities_.copies.reductions);
  return channel_links_->needs(required, replaces);
}
bool Communicator::needs_landing(const Requirements& required) const noexcept {
  return required.copy_reductions && capabilities_.copies.reductions && !copies_->lands();
}

bool Communicator::connected(const Requirements& required) const noexcept {
  if (size() == 1) return true;
  if (needs_mesh(required) || needs_line_mesh(required) || needs_landing(required)) return false;
  return !channel_needs(required).any() && channel_links_->has_pairs(required);
}

Status Communicator::connect(const Requirements& required, void (*idle)()) {
  const trace::Span span(trace::What::connect);
  const User user(users_);
  if (fault().raised()) return fault_.status();
  PeerWait wait(fault_, peers_, idle);
  const CommProperties before = plain_shape();
  Status status = contained([&] { return make_connections(required, wait); });
  if (launcher_ && plain_shape() != before) launcher_->shape_changes();
  if (!status) fault_.raise(status);
  return status;
}

Status Communicator::make_connections(const Requirements& required, PeerWait& wait) {
  if (!launcher_) GC_TRY(make_launcher());
  if (size() == 1) return {};
  const bool mesh = needs_mesh(required), line_mesh = needs_line_mesh(required), landing = needs_landing(required);
  if (mesh || line_mesh || landing || channel_needs(required).any()) GC_TRY(compare_requirements(required, wait));
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
Status Communicator::compare_requirements(const Requirements& required, PeerWait& wait) {
  struct Wanted {
    int32_t mesh, line_mesh, landing, ring, chain, tree, channels;
    bool operator==(const Wanted&) const = default;
  };
  const ChannelNeeds needs = channel_needs(required);
  const Wanted mine = {
      needs_mesh(required), needs_line_mesh(required), needs_landing(required), needs.ring, needs.chain, needs.tree,
      needs.channels};
  std::vector<Wanted> all(static_cast<size_t>(size()));
  MailboxBootstrap bootstrap(*mailbox_, wait, Purpose::connections, peers_);
  GC_TRY(bootstrap.allgather(&mine, all.data(), sizeof mine));
  for (int r = 0; r < size(); ++r) {
    if (all[static_cast<size_t>(r)] == mine) continue;
    GC_TRY(calls_.compare());  // which can say more, unless these are in captures
    return Status::error(Code::invalid_usage,
                         "rank %d and %s connect for different operations: all ranks must make the same collective "
                         "calls in the same order, with the same count, datatype, op and root",
                         rank(), peers_.name(r).c_str());
  }
  return {};
}

Status Communicator::make_mesh(PeerWait& wait) {
  if (over_network()) return make_network_mesh(wait);
  mesh_ = std::make_unique<Mesh>(peers_, memory_, proto::mesh_bytes(size()), *causes_);
  GC_TRY_AS(capabilities_.mesh, connect_mesh(&mesh_, wait));
  return capabilities_.mesh ? tables_->set_mesh(mesh_->buffers()) : Status();
}
// It is good for all ranks or none.
Status Communicator::make_network_mesh(PeerWait& wait) {
  GC_TRY_AS(network_mesh_, NetworkMesh::create(rank(), size(), memory_));
  Status status = contained([&] { return links_->make(network_mesh_->links(), wait); });
  MailboxBootstrap bootstrap(*mailbox_, wait, Purpose::connections, peers_);
  uint32_t nothing = 0;
  GC_TRY(peers_.agree(bootstrap, status, &nothing));
  return tables_->set_mesh(network_mesh_->buffers());
}
Status Communicator::make_line_mesh(PeerWait& wait) {
  line_mesh_ = std::make_unique<Mesh>(peers_, memory_, proto::line_mesh_bytes(size()), *causes_);
  GC_TRY_AS(capabilities_.line_mesh, connect_mesh(&line_mesh_, wait));
  return capabilities_.line_mesh ? tables_->set_line_mesh(line_mesh_->buffers()) : Status();
}
// False where there can be none. A mesh is kept even if it fails here: others may have succeeded, and their kernels
// store into this rank's buffer.
Result<bool> Communicator::connect_mesh(std::unique_ptr<Mesh>* mesh, PeerWait& wait) {
  mesh_tried_ = true;
  MailboxBootstrap bootstrap(*mailbox_, wait, Purpose::connections, peers_);
  GC_TRY_AS(const bool connected, (*mesh)->connect(bootstrap));
  if (!connected) mesh->reset();
  return connected;
}

Status Communicator::make_landing(PeerWait& wait) {
  // Copies go into it: so it is to share its block of memory with nothing else (gpu/cuda/imports.h).
  const uint64_t bytes = std::max<uint64_t>(landing_bytes(plain_shape()), gpu::kMemoryBlock);
  landing_mesh_ = std::make_unique<Mesh>(peers_, memory_, bytes, *causes_);
  GC_TRY_AS(const bool possible, connect_mesh(&landing_mesh_, wait));
  if (!possible) {
    capabilities_.copies.reductions = 0;
    return {};
  }
  copies_->carry_reductions(landing_mesh_->buffers());
  return {};
}

Status Communicator::agree_on_links(const Status& mine, PeerWait& wait) {
  MailboxBootstrap bootstrap(*mailbox_, wait, Purpose::connections, peers_);
  uint32_t p2p = links_->all_p2p() ? proto::kReachesAll : 0;
  GC_TRY(peers_.agree(bootstrap, mine, &p2p));
  if (!p2p) capabilities_.ll128 = false;
  log::write(log::Level::info, "rank %d of %d on %s: %d channels of %d threads, %u bytes a step, links %s%s", rank(),
             size(), device_.identity().name, capabilities_.channels, capabilities_.threads,
             capabilities_.slots[kCollectiveLinks].simple,
             p2p              ? "over p2p"
             : over_network() ? links_->over_network()
                              : "not all over p2p",
             mesh_ || network_mesh_ ? ", and a mesh" : "");
  return {};
}

}  // namespace gpucoll::core
