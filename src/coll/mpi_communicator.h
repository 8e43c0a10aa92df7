// The engine's side of one MPI communicator: the decision how to run each collective, and the runtime communicator,
// made at the first collective that can run on the device.
//
// Everything that decides is equal on all ranks that look: the lines of the board, and facts about the members that
// came with the modex. What only one rank can see (a board that it cannot open, a buffer that cannot be used) it
// publishes as GC_KIND_HOST before anybody decides. A rank that fails alone says so on the board from then on.
//
// Thread safety: one caller at a time (MPI's rule for a communicator's collectives).
#pragma once
#include <memory>
#include <vector>

#include "base/log.h"
#include "coll/arrivals.h"
#include "coll/mpi_call.h"
#include "core/abi.h"
#include "core/communicator.h"

namespace gpucoll::coll {

class MpiCommunicator : public gc_comm {
 public:
  // Local. Errors: out_of_memory when the board has no room.
  static Result<std::unique_ptr<MpiCommunicator>> create(const gc_comm_description& description);
  ~MpiCommunicator();

  enum class Answer { done, stage };
  Result<Answer> run(const gc_call& call);
  // Collectives that this process has run on a device.
  static uint64_t runs() noexcept;

  // The runtime communicator has work no more: waits for what is running and lets go of it.
  void finish();

 private:
  explicit MpiCommunicator(const gc_comm_description& description);
  void find_peers();
  // Publishes what this rank does in its collective number `sequence`; whether every rank can run it on its device.
  Result<bool> enter(const gc_call& call);
  Result<Answer> execute(const gc_call& call, uint64_t number, bool same);
  Result<Answer> run_on_device();
  Status give_up(uint64_t number, Status status) noexcept;
  bool has_part(const gc_call& call);
  Status check_same_call() const;
  bool device_shared() const;
  bool same_devices() const;
  Status make_runtime();
  void tell_staged(log::Level level, const char* why) const;
  Answer stage_from_now_on(const Status& why);
  Status put_on_stream();
  Status launch(const core::CommShape& shape);
  Status copy(const std::vector<Copy>& copies);
  Status end();
  void stage_for_ever(int because_of, const Status& why);

  gc_comm_description description_;
  Arrivals arrivals_;
  bool peers_found_ = false;
  bool staging_only_ = false;
  bool told_staged_ = false;  // in run_on_device()
  bool failed_ = false;       // see give_up()
  DevicePart part_;           // of the present collective: keeps its room
  Scratch scratch_;
  std::vector<gc_board_line> bound_;  // the lines by which the runtime communicator was made
  std::unique_ptr<core::Communicator> runtime_;
};

}  // namespace gpucoll::coll
