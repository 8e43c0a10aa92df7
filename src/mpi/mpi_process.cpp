#include "mpi/mpi_process.h"

#include <sys/random.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "base/fork.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/params.h"

namespace gpucoll::coll {
namespace {

constexpr uint32_t kMagic = 0x67637073;

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
  }
  std::memset(mine, 0, sizeof *mine);
  std::memcpy(mine->bytes, &mine_, sizeof mine_);
  return {};
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
  ProcessInfo info;
  std::memcpy(&info, blob.bytes, sizeof info);
  return outbox_of(blob) && !std::memcmp(info.outbox_secret, secret, sizeof info.outbox_secret);
}

std::optional<SharedMemoryName> MpiProcess::outbox_of(const gc_process_blob& blob) const {
  ProcessInfo info;
  std::memcpy(&info, blob.bytes, sizeof info);
  const bool same = info.magic == kMagic && !std::strncmp(info.version, mine_.version, sizeof info.version) &&
                    info.node == mine_.node && info.outbox.bytes == sizeof(proto::Outbox);
  return same ? std::optional(info.outbox) : std::nullopt;
}

Result<const PeerProcess*> MpiProcess::peer(const gc_process_blob* blob, int own_rank) {
  if (!blob)
    return Status::error(Code::unsupported,
                         "runs without gpucoll: install it there, too, and leave it among the components of coll");
  ProcessInfo info;
  std::memcpy(&info, blob->bytes, sizeof info);
  if (info.magic != kMagic || std::strncmp(info.version, mine_.version, sizeof info.version))
    return Status::error(Code::invalid_usage, "runs another version of gpucoll than %.16s: install one everywhere",
                         mine_.version);
  if (info.node != mine_.node)
    return Status::error(
        Code::unsupported,
        "is on another node or in another container (PID namespace): collectives run on devices only between ranks of "
        "one node that see each other's processes; start them in one container, or with one PID namespace");
  if (!(info.params == mine_.params))
    return Status(Code::invalid_usage, info.params.difference_from(mine_.params, own_rank));
  std::lock_guard lock(mutex_);
  auto& known = peers_[{info.pid, info.board.inode}];
  if (known) return known.get();
  auto board = core::Board::open(info.board);
  if (!board) return Status::error(board.status().code(), "has a board out of reach: %s", board.status().what());
  auto made = std::make_unique<PeerProcess>();
  made->board = *std::move(board);
  GC_TRY_AS(made->liveness, core::Liveness::of(info.pid));
  made->pid = info.pid;
  known = std::move(made);
  return known.get();
}

uint64_t MpiProcess::incarnation(uint64_t context_id, uint64_t members_hash) {
  std::lock_guard lock(mutex_);
  return ++incarnations_[hash_combine(members_hash, context_id)];
}

}  // namespace gpucoll::coll
