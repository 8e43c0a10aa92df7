#include "mpi/mpi_process.h"

#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/fork.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mutant.h"
#include "base/params.h"
#include "core/peer/peers.h"

namespace gpucoll::coll {
namespace {

constexpr uint32_t kMagic = 0x67637075;

// Returns whether other processes of the job may be on other nodes, as far as Open MPI's launcher tells; a container
// may be a node of its own.
bool may_have_other_nodes() {
  constexpr ino_t kFirstPidNamespace = 0xEFFFFFFC;
  const char* const all = std::getenv("OMPI_COMM_WORLD_SIZE");
  const char* const here = std::getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
  if (!all || !here || std::strcmp(all, here) || !params().host_id.empty()) return true;
  struct stat space = {};
  return stat("/proc/self/ns/pid", &space) != 0 || space.st_ino != kFirstPidNamespace;
}

ProcessInfo info_in(const gc_process_blob& blob) {
  ProcessInfo info;
  std::memcpy(&info, blob.bytes, sizeof info);
  return info;
}

}  // namespace

MpiProcess& MpiProcess::instance() {
  static MpiProcess* process = new MpiProcess;  // other threads may still use it while statics are torn down
  return *process;
}

Status MpiProcess::open(gc_process_blob* mine) {
  GC_TRY(params_status());
  if (!mine_.magic) {
    claim_process();
    GC_TRY_AS(board_, core::Board::create());
    GC_TRY_AS(mine_.node, topo::this_node());
    mine_.magic = kMagic;
    mine_.pid = getpid();
    std::snprintf(mine_.version, sizeof mine_.version, "%s", library_version());
    mine_.params = EqualParams::of_this_process();
    mine_.board = board_.name();
    make_outbox();
    if (may_have_other_nodes()) listen();
  } else if (!gc_mutant(416)) {
    board_.begin_again();
  }
  std::memset(mine, 0, sizeof *mine);
  std::memcpy(mine->bytes, &mine_, sizeof mine_);
  return {};
}

void MpiProcess::listen() {
  const Status listening = contained([this] {
    return RemoteBoards::instance().listen({mine_.node, mine_.pid, mine_.board.inode}, &board_, &mine_.address);
  });
  const bool can_be_mended = listening.code() == Code::invalid_argument;
  if (!listening)
    log::write(can_be_mended ? log::Level::warn : log::Level::info,
               "collectives with ranks of other nodes go through the host: %s", listening.what());
}

void MpiProcess::make_outbox() {
  if (!params().pt2pt || params().pt2pt_direct_bytes == kOff) return;
  auto made = SharedMemory::create(sizeof(proto::Outbox), "gpucoll-outbox");
  if (!made) {
    log::write(log::Level::warn, "messages of this process go through the PML alone: %s", made.status().what());
    return;
  }
  auto* const outbox = static_cast<proto::Outbox*>(made->data());
  if (getrandom(outbox->nonce, sizeof outbox->nonce, 0) != sizeof outbox->nonce) return;
  outbox_ = *std::move(made);
  mine_.outbox = outbox_.name();
  std::memcpy(mine_.outbox_secret, outbox->nonce, sizeof mine_.outbox_secret);
}

bool MpiProcess::is_secret_of(const gc_process_blob& blob, const uint8_t* secret) const {
  const ProcessInfo info = info_in(blob);
  return has_outbox(info) && !std::memcmp(info.outbox_secret, secret, sizeof info.outbox_secret);
}

bool MpiProcess::is_of_this_version(const ProcessInfo& info) const {
  return info.magic == kMagic && !std::strncmp(info.version, mine_.version, sizeof info.version);
}

bool MpiProcess::runs_this_version(const gc_process_blob& blob) const { return is_of_this_version(info_in(blob)); }

// Returns whether a process of this version has an outbox.
bool MpiProcess::has_outbox(const ProcessInfo& info) const {
  return is_of_this_version(info) && info.outbox.bytes == sizeof(proto::Outbox);
}

std::optional<SharedMemoryName> MpiProcess::outbox_of(const gc_process_blob& blob) const {
  const ProcessInfo info = info_in(blob);
  return has_outbox(info) && info.node == mine_.node ? std::optional(info.outbox) : std::nullopt;
}

bool MpiProcess::takes_pieces(const gc_process_blob& blob) const {
  const ProcessInfo info = info_in(blob);
  return has_outbox(info) && info.node != mine_.node;
}

bool MpiProcess::is_on_other_node(const gc_process_blob& blob) const {
  const ProcessInfo info = info_in(blob);
  return info.magic == kMagic && info.node != mine_.node;
}

bool MpiProcess::is_known_to_be_gone(const gc_process_blob& blob) {
  const ProcessInfo info = info_in(blob);
  const ProcessId id = {info.node, info.pid, info.board.inode};
  if (is_on_other_node(blob) && core::reaches_other_nodes()) {
    const RemoteProcess* const remote = RemoteBoards::instance().watch(id, info.address);
    return remote && !remote->alive();
  }
  constexpr int kNobody = -1;  // an error is not told
  if (const auto known = peer(&blob, kNobody)) return !(*known)->alive();
  // The board of a process that ended before anybody looked at it cannot be opened any more.
  const bool is_here = info.magic == kMagic && info.node == mine_.node;
  return is_here && !gc_mutant(530) && !core::Liveness(info.pid).alive();
}

std::string PeerProcess::name() const {
  std::string text = "process " + std::to_string(pid);
  if (remote) text += " on host " + std::string(address.host, strnlen(address.host, sizeof address.host));
  return text;
}

// Returns what keeps this process and one of another node from reaching each other.
Status MpiProcess::can_reach(const ProcessInfo& info) const {
  if (!core::reaches_other_nodes())
    return Status::error(Code::unsupported,
                         "is on another node or in another container (PID namespace), where the parameter transport "
                         "does not reach: set it to auto, verbs or tcp");
  if (info.address.at.anywhere() && mine_.address.at.anywhere()) return {};
  return Status::error(Code::unsupported,
                       "is on another node or in another container (PID namespace), and %s does not listen for other "
                       "nodes: Open MPI's launcher has said that all ranks are on one, or see its own message",
                       info.address.at.anywhere() ? "this process" : "that process");
}

Status MpiProcess::make_known(const ProcessInfo& info, PeerProcess* peer) {
  peer->pid = info.pid;
  peer->address = info.address;
  if (info.node != mine_.node) {
    GC_TRY_AS(peer->remote, RemoteBoards::instance().process({info.node, info.pid, info.board.inode}));
    return {};
  }
  auto board = core::Board::open(info.board);
  if (!board)
    return Status::error(board.status().code(), "cannot be reached by its arrival board: %s", board.status().what());
  peer->mapped = *std::move(board);
  GC_TRY_AS(peer->liveness, core::Liveness::of(info.pid));
  return {};
}

Result<const PeerProcess*> MpiProcess::peer(const gc_process_blob* blob, int own_rank) {
  if (!blob)
    return Status::error(Code::unsupported,
                         "runs without gpucoll: install it there, too, and leave it among the components of coll");
  const ProcessInfo info = info_in(*blob);
  if (info.magic != kMagic)
    return Status::error(Code::invalid_usage, "runs another version of gpucoll than %.16s: install one everywhere",
                         mine_.version);
  if (std::strncmp(info.version, mine_.version, sizeof info.version))
    return Status::error(Code::invalid_usage,
                         "runs gpucoll %.16s, and this process gpucoll %.16s: install one version everywhere",
                         info.version, mine_.version);
  if (!(info.params == mine_.params))
    return Status(Code::invalid_usage, info.params.difference_from(mine_.params, own_rank));
  if (info.node != mine_.node) GC_TRY(can_reach(info));
  std::lock_guard lock(mutex_);
  auto& known = peers_[{info.node, info.pid, info.board.inode}];
  if (known) return known.get();
  auto made = std::make_unique<PeerProcess>();
  GC_TRY(make_known(info, made.get()));
  known = std::move(made);
  return known.get();
}

uint64_t MpiProcess::incarnation(uint64_t context_id, uint64_t members_hash) {
  std::lock_guard lock(mutex_);
  return ++incarnations_[hash_combine(members_hash, context_id)];
}

}  // namespace gpucoll::coll
