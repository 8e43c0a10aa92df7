// The engine's side of one MPI communicator: its entry on the arrival board, the decision how to run each collective,
// and the runtime communicator, made at the first collective that can run on the device.
//
// Everything that decides is equal on all ranks that look: the lines of the board, and facts about the members that
// came with the modex. What only one rank can see (a board that it cannot open, a buffer that cannot be used) it
// publishes as GC_KIND_STAGED before anybody decides. A rank that fails alone publishes GC_KIND_FAILED from then on.
//
// Thread safety: one caller at a time (MPI's rule for a communicator's collectives).
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "coll/collectives.h"
#include "coll/mpi_process.h"
#include "core/abi.h"
#include "core/communicator.h"

namespace gpucoll::coll {

class MpiCommunicator : public gc_comm {
 public:
  // Local. Errors: out_of_memory when the board has no room.
  static Result<std::unique_ptr<MpiCommunicator>> create(const gc_comm_description& description);
  ~MpiCommunicator();

  enum class Answer { done, stage };
  // type, op: -1 where there is none.
  Result<Answer> all_reduce(const void* send, void* recv, size_t count, int type, int op);

  // The runtime communicator has work no more: waits for what is running and lets go of it.
  void finish();

 private:
  explicit MpiCommunicator(const gc_comm_description& description);
  core::BoardKey key() const;
  void find_peers();
  // What a call that can run on the device needs.
  struct Run {
    gpu::Device* device = nullptr;
    core::CollectiveTask task = {};
  };
  // Publishes this rank's line; whether every rank can run the call on its device.
  Result<bool> enter(const void* send, void* recv, size_t count, int type, int op, Run* run);
  Result<Answer> execute(const Run& run);
  Status give_up(uint64_t number, Status status) noexcept;
  gpu::Device* usable_device(const CollectiveCall& call, core::CollectiveTask* task);
  void publish(const gpu::Device* device, size_t count, int type, int op);
  Result<bool> all_on_device();
  Status look_at_line(int rank, const gc_board_line** line);
  Status check_same_call() const;
  bool device_shared() const;
  bool same_devices() const;
  Status make_runtime(gpu::Device& device);
  Answer stage_from_now_on(const Status& why);
  Result<core::CommShape> queue_up(core::CollectiveTask task);
  Status launch(const core::CommShape& shape);
  void stage_for_ever(int because_of, const Status& why);
  std::string rank_name(int rank) const;

  gc_comm_description description_;
  core::BoardKey key_ = {};
  gc_board_entry* entry_ = nullptr;
  bool peers_found_ = false;
  bool staging_only_ = false;
  bool failed_ = false;                              // see give_up()
  std::vector<const PeerProcess*> peers_;            // null for this rank
  std::vector<const gc_board_entry*> peer_entries_;  // as they are found
  std::vector<gc_board_line> lines_;                 // what every rank published for the present collective
  std::vector<gc_board_line> bound_;                 // the lines by which the runtime communicator was made
  std::unique_ptr<core::Communicator> runtime_;
  core::TaskQueue queue_;  // of the present collective: keeps its room
};

}  // namespace gpucoll::coll
