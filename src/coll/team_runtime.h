// Runs blocking collectives where several ranks of a communicator use one device on which their kernels cannot run side
// by side (docs/adr/0023): of each device one rank, the leader, launches kernels for all of them; the leaders have a
// runtime communicator of their own.
//
// A collective: offer() before this rank publishes it; then, once every rank has come with device memory, fits() and
// run(). What fits() and run() answer is equal on all ranks.
// Thread safety: one caller at a time, as for blocking collectives. Ownership: owns the leaders' runtime communicator.
#pragma once
#include <memory>
#include <optional>

#include "coll/board_bootstrap.h"
#include "coll/mpi_runtime.h"
#include "coll/team_pages.h"
#include "coll/teams.h"

namespace gpucoll::coll {

class TeamRuntime {
 public:
  TeamRuntime(const gc_comm_description& description, Arrivals& arrivals)
      : description_(description), arrivals_(arrivals), leaders_(description, arrivals, GC_MEETING_LEADERS) {}

  // What this rank's line says of it: GC_LINE_TEAM, or 0 where its leader could not run it. Keeps what it asks for.
  uint32_t offer(const gc_call& call, const DeviceCall& part);
  bool fits(const DeviceCall& call);
  // False: it goes through the host, and all others from now on. A failure on one rank fails its whole team.
  Result<bool> run(DeviceCall& call);
  // This rank takes part no more.
  void fail(const Status& why) noexcept;
  // As MpiRuntime::finish().
  void finish();

 private:
  bool leads() const { return teams_->leader_of(description_.rank) == description_.rank; }
  const std::vector<int>& team() const {
    return teams_->members[static_cast<size_t>(teams_->of[static_cast<size_t>(description_.rank)])];
  }
  bool make_mirror(gpu::Device& device, const gpu::HostBlock& pinned);
  Result<bool> meet(const DeviceCall& call);
  Status open_pages(BoardBootstrap& all);
  Result<bool> lead(const DeviceCall& call);
  Status collect(const DeviceCall& call);
  Result<bool> launch(const DeviceCall& call);
  Status hand_over(const DeviceCall& call);
  Status take_back(const DeviceCall& call);
  Result<bool> follow(const DeviceCall& call);
  // Until `come` says so. Errors: the rank has died, or takes too long.
  template <class Come>
  Status await(int rank, const char* what, const Place& place, const Come& come);
  void tell_teams() const;

  const gc_comm_description& description_;
  Arrivals& arrivals_;
  MpiRuntime leaders_;
  std::optional<Teams> teams_;        // once they are known to be needed
  std::vector<gc_board_line> bound_;  // the lines by which they were made
  bool unneeded_ = false, staging_ = false;
  std::unique_ptr<TeamPages> pages_;
  gpu::Device* device_ = nullptr;  // of the pages
  Scratch mirror_memory_;
  Mirror mirror_;
  uint64_t calls_ = 0;
  bool gaps_ = false;                   // of the present call: it reduces pairs with gaps
  bool answered_ = true;                // by this leader
  std::vector<core::TaskQueue> parts_;  // of the members but this leader
  DeviceCall whole_;
};

}  // namespace gpucoll::coll
