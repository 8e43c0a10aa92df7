// Finds the entries of a communicator's ranks on the arrival boards: this rank's own, which it writes, and those of the
// other ranks, which it reads. Ranks on other nodes read copies, to which this rank sends what it has stored.
//
// Thread safety: open() and find_peers() come before all else; then any thread, but tell() and ask() from one thread
// at a time for each part of the entry. Ownership: owns this rank's entry; the communicator's description outlives it.
#pragma once
#include <atomic>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "abi/abi.h"
#include "coll/match/call_id.h"
#include "core/comm/communicator.h"
#include "mpi/mpi_process.h"

namespace gpucoll::coll {

class BoardEntries {
 public:
  explicit BoardEntries(const gc_comm_description& description) : description_(description) {}
  ~BoardEntries();
  BoardEntries(const BoardEntries&) = delete;
  BoardEntries& operator=(const BoardEntries&) = delete;

  // Opens this rank's entry. Local. Errors: out_of_memory when the board has no room.
  Status open();
  // Looks up the other members' processes, and makes channels to those of other nodes, with MPI progress. Errors: as
  // MpiProcess::peer, about rank *rank; remote and timed_out, where this process cannot reach it.
  Status find_peers(int* rank);

  const gc_comm_description& description() const noexcept { return description_; }
  // Returns what names the communicator on all boards.
  const core::BoardKey& key() const noexcept { return key_; }
  gc_board_entry& own() const noexcept { return *entry_; }
  gc_board_line* own_lines(uint32_t order) const noexcept { return entry_->orders[order].lines; }
  gc_board_line& own_line(const CallId& place) const noexcept {
    return own_lines(place.order)[place.number % GC_BOARD_LINES];
  }
  // Returns the entry of a rank that look_up() has found, or of this rank.
  const gc_board_entry& of(int rank) const { return rank == description_.rank ? *entry_ : *known(rank); }
  const gc_board_line& line(int rank, const CallId& place) const {
    return of(rank).orders[place.order].lines[place.number % GC_BOARD_LINES];
  }
  // Returns what look_up() has found of another rank; null: nothing.
  // Relaxed: a null pointer is looked for anew, and an entry that any other one points to was there before the peer
  // came.
  const gc_board_entry* known(int rank) const noexcept {
    return __atomic_load_n(&peer_entries_[static_cast<size_t>(rank)], __ATOMIC_RELAXED);
  }
  // Returns another rank's entry, and remembers it; null where the rank has none (yet).
  const gc_board_entry* look_up(int rank) {
    const gc_board_entry* const entry = known(rank);
    return entry ? entry : look_anew(rank);
  }
  // Returns a rank's entry, without remembering it.
  const gc_board_entry* find(int rank) const noexcept {
    return rank == description_.rank ? entry_ : board_of(rank).find(key_);
  }
  // Returns whether earlier reads of the rank's entry may be of another communicator, as the rank has freed this one.
  bool has_left(int rank) const noexcept;

  // Returns whether find_peers() has been called: what follows needs that.
  bool knows_peers() const noexcept { return !peers_.empty(); }
  // Return the process of another rank (null: it was not found), that of a rank on another node (null for other ranks),
  // and all those on other nodes.
  const PeerProcess* peer(int rank) const noexcept { return peers_[static_cast<size_t>(rank)]; }
  RemoteProcess* remote(int rank) const noexcept {
    const PeerProcess* const peer = peers_[static_cast<size_t>(rank)];
    return peer ? peer->remote : nullptr;
  }
  const std::vector<RemoteProcess*>& remotes() const noexcept { return remotes_; }
  const core::Board& board_of(int rank) const noexcept {
    const PeerProcess* const peer = peers_[static_cast<size_t>(rank)];
    return peer ? peer->board() : MpiProcess::instance().board();
  }
  bool alive(int rank) const noexcept {
    return rank == description_.rank || peers_[static_cast<size_t>(rank)]->alive();
  }
  // "rank 1 (process 4711)", with " on host node7" where it is on another node
  std::string rank_name(int rank) const;
  // Returns the other ranks' pulses.
  std::vector<core::Surroundings::Bystander> bystanders() const;

  // A part of this rank's entry.
  struct Piece {
    const void* at;
    size_t bytes;
  };
  // Tells the processes on other nodes what this rank has stored there, in this order.
  void tell(std::initializer_list<Piece> pieces) const noexcept {
    if (!remotes_.empty()) send(pieces);
  }
  // Tells this rank's line of a call, in the order in which the rank stores it.
  void tell_line(const CallId& place) const noexcept;
  // Asks a rank on another node, once, to tell when it comes to a call: with host memory it tells nothing by itself.
  void ask(int rank, const CallId& place) noexcept;
  // Takes what a rank on another node has told, for a caller that waits for it: the endpoint's thread would have to
  // wake up first.
  void look_for_news(int rank) const noexcept {
    if (RemoteProcess* const process = remote(rank)) process->receive_now();
  }

 private:
  core::BoardKey make_key() const;
  const gc_board_entry* look_anew(int rank) noexcept;
  Status connect_remotes(int* rank);
  void send(std::initializer_list<Piece> pieces) const noexcept;

  const gc_comm_description& description_;
  core::BoardKey key_ = {};
  gc_board_entry* entry_ = nullptr;
  std::vector<const PeerProcess*> peers_;            // null for this rank
  std::vector<const gc_board_entry*> peer_entries_;  // as they are found
  std::vector<RemoteProcess*> remotes_;              // on other nodes
  // By rank and order: the last number that a rank on another node was asked about.
  std::unique_ptr<std::atomic<uint64_t>[]> asked_;
};

}  // namespace gpucoll::coll
