// How the ranks of an MPI communicator learn what each of them is about to do: this rank's entry on the arrival board,
// and those of its peers (proto/format/board.h says why this is right).
//
// Collective number n: publish(); all_on_device(); and only where that says yes, which it then says on every rank:
// lines() are what each rank calls, and before this rank goes on await_decisions(), unless it has run a collective that
// holds_everybody().
//
// Thread safety: one caller at a time. Ownership: owns its entry; the communicator's name and skin outlive it.
#pragma once
#include <string>
#include <vector>

#include "coll/mpi_process.h"
#include "core/abi.h"
#include "core/communicator.h"

namespace gpucoll::coll {

const char* function_name(uint32_t function);  // "MPI_Allgather", of GC_FUNCTION_*
// Whether nobody can leave it before everybody has taken part. REQUIRES: some rank has bytes in it; then all have.
bool holds_everybody(uint32_t function);

class Arrivals {
 public:
  explicit Arrivals(const gc_comm_description& description) : description_(description) {}
  ~Arrivals();
  Arrivals(const Arrivals&) = delete;
  Arrivals& operator=(const Arrivals&) = delete;

  // Local. Errors: out_of_memory when the board has no room.
  Status open();
  gc_board_line* own_lines() const { return entry_->lines; }
  // Looks up the other members' processes. Errors: as MpiProcess::peer, about rank *rank.
  Status find_peers(int* rank);

  // REQUIRES for GC_KIND_DEVICE: find_peers(). `line`: all but `arrival`, for GC_KIND_DEVICE only.
  void publish(uint64_t number, uint32_t function, uint32_t kind, const gc_board_line& line);
  // Whether every rank comes with device memory; false as soon as one does not. Errors: a rank calls another function,
  // has failed, is dead or does not come in time; the fault of `runtime` (may be null).
  Result<bool> all_on_device(uint64_t number, uint32_t function, core::Communicator* runtime);
  // By rank. REQUIRES: all_on_device() for this collective.
  const std::vector<gc_board_line>& lines() const { return lines_; }
  // Waits until no rank needs this rank's line any more. All ranks call it or none.
  Status await_decisions(uint64_t number, uint32_t function, core::Communicator* runtime);
  // From collective `number` on this rank takes part no more: nobody must wait for it.
  void fail(uint64_t number) noexcept;

  std::string rank_name(int rank) const;

 private:
  enum class Seen { not_there, come, gone };
  struct Look {
    Seen seen;
    uint64_t arrival;  // where it has come
    bool failed;       // in this collective or before
  };
  struct Wait;
  core::BoardKey key() const;
  Look look_at(int rank, uint64_t number);
  Result<bool> on_device(int rank, const Look& look, const Wait& wait) const;
  Status failure_of(int rank) const;
  Status look_around(int rank, const Wait& wait) const;
  bool has_decided(int rank, uint64_t number) const;
  void decide(uint64_t number) noexcept;
  void read_lines(uint64_t number);

  const gc_comm_description& description_;
  core::BoardKey key_ = {};
  gc_board_entry* entry_ = nullptr;
  std::vector<const PeerProcess*> peers_;            // null for this rank
  std::vector<const gc_board_entry*> peer_entries_;  // as they are found
  std::vector<gc_board_line> lines_;
};

}  // namespace gpucoll::coll
