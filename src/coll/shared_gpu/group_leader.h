// Runs calls for all ranks of a device: reads what the members hand over, puts it together into one call of the
// leaders' runtime communicator, runs that, and answers the members.
//
// The life of a call: begin(); collect() until no member is missing; put_together(). Then run(), where prepare() has
// been true, or begin_launch(), launch() and has_run() until they are true; and answer(). prepare() and run() wait for
// other ranks, the others do not.
//
// Thread safety: one caller at a time. Ownership: owns the leaders' runtime communicator, and borrows this rank's part.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "coll/match/blocking_order.h"
#include "coll/runtime/mpi_runtime.h"
#include "coll/shared_gpu/device_groups.h"
#include "coll/shared_gpu/own_part.h"

namespace gpucoll::coll {

class GroupLeader {
 public:
  // meeting: where the leaders meet, GC_MEETING_*.
  GroupLeader(const gc_comm_description& description, CallMatcher& matcher, uint32_t meeting,
              const std::shared_ptr<CauseLog>& causes, const OwnPart& own)
      : description_(description), matcher_(matcher), own_(own), runtime_(description, matcher, meeting, causes) {}

  // Leads this rank's group from now on. REQUIRES: `groups` outlives this, and this rank is the first of its group.
  void lead(const DeviceGroups& groups);
  // Begins this rank's call `number` in groups: 1, 2, ...
  void begin(uint64_t number) noexcept {
    number_ = number;
    n_parts_ = 0;
  }
  // Reads the parts that the members have handed over, and returns the first member that has not; -1: all have.
  Result<int> collect(const DeviceCall& call);
  // Makes the call of all members. loads: what this rank has in host memory counts now. REQUIRES: collect() was -1.
  Status put_together(const DeviceCall& call, bool loads);
  // As those of MpiRuntime, for the call of all members.
  Result<bool> prepared() { return runtime_.prepared(whole_); }
  Result<bool> prepare(void (*idle)()) { return runtime_.prepare(whole_, idle); }
  // Runs the call when it is its turn, and waits for its end, with MPI progress.
  Status run(BlockingOrder& blocking_order);
  Status begin_launch() { return runtime_.begin(whole_); }
  // Launches what there is room for, and returns whether all of it is launched.
  Result<bool> launch();
  Result<bool> has_run() { return runtime_.has_run(launches_); }
  // Tells the members that the call is done, or goes through the host.
  void answer(bool done);
  // Notes that the members know already what becomes of the call.
  void need_not_answer() noexcept { answered_ = true; }

  // Tells the other leaders why they cannot count on this one.
  void raise_fault(const Status& why) noexcept;
  // Tells them and the members, and returns whether there are others that are told.
  bool fail(const Status& why) noexcept;
  // Returns a failure in words of the MPI communicator's ranks.
  Status explained(Status failure) const;
  // Finishes as MpiRuntime::finish() does.
  void finish(core::Closing& closing);

 private:
  const std::vector<int>& group() const;

  const gc_comm_description& description_;
  CallMatcher& matcher_;
  const OwnPart& own_;
  MpiRuntime runtime_;
  const DeviceGroups* groups_ = nullptr;
  // The present call.
  uint64_t number_ = 0;
  std::vector<core::TaskQueue> parts_;  // of the members except this leader
  size_t n_parts_ = 0;                  // how many have been read
  DeviceCall whole_;
  uint64_t launches_ = 0;  // it is done when the runtime communicator has done so many
  bool answered_ = true;
};

}  // namespace gpucoll::coll
