// Holds what the engine behind the MPI component keeps once a process: its arrival board, the blob that the others get
// through the modex, the boards of others, and staging memory.
//
// Thread safety: any thread. Ownership: lives until the process ends; boards of others are mapped once and kept.
#pragma once
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "abi/abi.h"
#include "base/equal_params.h"
#include "core/peer/heart.h"
#include "core/peer/liveness.h"
#include "core/progress/watchdog.h"
#include "gpu/device.h"
#include "mpi/board.h"
#include "mpi/remote_boards.h"
#include "proto/format/outbox.h"
#include "topo/node.h"

namespace gpucoll::coll {

// The facts that a process tells the others; they travel as gc_process_blob.
struct ProcessInfo {
  uint32_t magic;
  int32_t pid;
  char version[16];
  topo::NodeId node;
  EqualParams params;
  SharedMemoryName board;
  SharedMemoryName outbox;  // no bytes: none
  uint8_t outbox_secret[proto::kSecretBytes];
  proto::NetworkAddress address;  // where it answers processes of other nodes; nowhere: it does not
};
static_assert(sizeof(ProcessInfo) <= GC_PROCESS_BLOB_BYTES);

// Another process.
struct PeerProcess {
  core::Board mapped;               // of a process of this node
  RemoteProcess* remote = nullptr;  // of another node
  proto::NetworkAddress address = {};
  core::Liveness liveness;
  int pid = 0;

  const core::Board& board() const noexcept { return remote ? remote->board() : mapped; }
  bool alive() const noexcept { return remote ? remote->alive() : liveness.alive(); }
  // "process 4711", "process 4711 on host node7"
  std::string name() const;
};

class MpiProcess final : public core::Watched {
 public:
  static MpiProcess& instance();

  Status open(gc_process_blob* mine);
  core::Board& board() { return board_; }
  // Memory from which others of the node take messages (proto/format/outbox.h); empty where none is wanted, or there is
  // no memory for it.
  const SharedMemory& outbox() const { return outbox_; }
  // Returns whether the process with this blob runs with this version of gpucoll.
  bool runs_this_version(const gc_process_blob& blob) const;
  // Returns whether the process with this blob is on another node, or in another PID namespace.
  bool is_on_other_node(const gc_process_blob& blob) const;
  // Returns the outbox of the process behind a blob, if it and this one can look into each other's.
  std::optional<SharedMemoryName> outbox_of(const gc_process_blob& blob) const;
  // Returns whether the process behind a blob is on another node, and takes messages in pieces as this one does.
  bool takes_pieces(const gc_process_blob& blob) const;
  // Returns whether that process is known to have ended. It is watched from the first call on.
  bool is_known_to_be_gone(const gc_process_blob& blob);
  // Returns whether these proto::kSecretBytes are those of the outbox of the process behind a blob.
  bool is_secret_of(const gc_process_blob& blob, const uint8_t* secret) const;
  // This process enters no collective any more.
  void end() noexcept {
    if (watched_.exchange(false)) core::Watchdog::instance().remove(this);
    if (mine_.magic) board_.end();
    RemoteBoards::instance().tell_pulse();  // nobody need wait for it
  }

  // From now on its board shows that it runs, as others may wait for it.
  void show_pulse() {
    if (!watched_.exchange(true)) core::Watchdog::instance().add(this);
    check();
  }
  void check() noexcept override {
    core::Heart::show(&board_.pulse());
    RemoteBoards::instance().tell_pulse();
  }

  // The peer behind the blob of another rank than `own_rank`, which is this one's. One on another node may have no
  // channel yet. Errors, where this process and that one cannot work together, worded to follow "rank N": unsupported
  // and invalid_usage (to be mended by the user), others on this one only.
  Result<const PeerProcess*> peer(const gc_process_blob* blob, int own_rank);

  // A number that is equal on all members of a communicator and new at each creation: how often this process has
  // seen a communicator with this context id and these members.
  uint64_t incarnation(uint64_t context_id, uint64_t members_hash);

 private:
  void make_outbox();
  void listen();
  bool is_of_this_version(const ProcessInfo& info) const;
  bool has_outbox(const ProcessInfo& info) const;
  Status can_reach(const ProcessInfo& info) const;
  Status make_known(const ProcessInfo& info, PeerProcess* peer);
  core::Board board_;
  SharedMemory outbox_;
  ProcessInfo mine_ = {};
  std::atomic<bool> watched_{false};
  std::mutex mutex_;
  std::map<ProcessId, std::unique_ptr<PeerProcess>> peers_;
  std::unordered_map<uint64_t, uint64_t> incarnations_;
};

}  // namespace gpucoll::coll
