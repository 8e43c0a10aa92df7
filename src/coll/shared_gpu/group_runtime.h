// Runs collectives where several ranks of a communicator use one device on which their kernels cannot run side by side
// (docs/adr/0023). One rank of each device, the leader, launches kernels for all of its ranks; the leaders have a
// runtime communicator of their own.
//
// The life of a collective: offer() before this rank publishes it. Once every rank has come with device memory: fits(),
// and run(), or step() until it says neither `waiting` nor `ready`, one call after another. A persistent collective
// takes its steps once as a dry run, which makes what it needs but launches nothing, and then at each of its starts.
// The answer of fits() and the outcome of a call are equal on all ranks.
//
// Thread safety: one caller at a time. Ownership: owns the leaders' runtime communicator.
#pragma once
#include <memory>
#include <optional>

#include "coll/match/blocking_order.h"
#include "coll/match/board_bootstrap.h"
#include "coll/runtime/background_task.h"
#include "coll/shared_gpu/device_groups.h"
#include "coll/shared_gpu/group_leader.h"
#include "coll/shared_gpu/group_wait.h"
#include "coll/shared_gpu/own_part.h"

namespace gpucoll::coll {

class GroupRuntime {
 public:
  enum class Outcome {
    waiting,
    ready,  // step() only: the next step launches the call
    done,
    stage  // the call goes through the host, and all others from now on
  };

  // GC_MEETING_* where all ranks meet, and where the leaders meet.
  struct Meetings {
    uint32_t all, leaders;
  };
  GroupRuntime(const gc_comm_description& description, CallMatcher& matcher, Meetings meetings,
               const std::shared_ptr<CauseLog>& causes)
      : description_(description),
        matcher_(matcher),
        meeting_(meetings.all),
        causes_(causes),
        leader_(description, matcher, meetings.leaders, causes, own_),
        wait_(description, matcher) {}
  ~GroupRuntime();
  GroupRuntime(const GroupRuntime&) = delete;
  GroupRuntime& operator=(const GroupRuntime&) = delete;

  // Returns what this rank's line says of the call: GC_LINE_GROUP, or 0 where its leader could not run it. next: run()
  // follows.
  uint32_t offer(const DeviceCall& call, bool next);
  bool fits(const DeviceCall& call);
  // Returns why ranks that share a device go through the host, where fits() has been false.
  Cause why_not() const noexcept { return params().shared_gpu ? Cause::shared_gpu : Cause::shared_gpu_off; }
  // Runs a call, and waits for it with MPI progress. A failure on one rank fails its whole group.
  Result<Outcome> run(DeviceCall& call, BlockingOrder& blocking_order);
  // Take a step, of a run or of a dry run. They do not wait, nor make progress.
  Result<Outcome> step(DeviceCall& call) { return go_on(call, false); }
  Result<Outcome> dry_run(DeviceCall& call) { return go_on(call, true); }
  // Return whether the next step() launches the call, and whether this rank is to launch it at all and has not yet.
  bool is_ready() const noexcept { return step_ == Step::ready; }
  bool is_to_launch() const noexcept {
    return step_ == Step::collecting || step_ == Step::preparing || step_ == Step::ready || step_ == Step::launching ||
           (step_ == Step::meeting && leads());
  }
  // Returns whether this rank runs collectives for others. REQUIRES: fits() has been true.
  bool leads() const { return leader() == description_.rank; }
  // Returns whether a device that runs on processors has something to do for step().
  bool needs_processors() const noexcept { return step_ != Step::idle && own_.emulated(); }
  // Tells the other leaders why they cannot count on this one, if it leads: also between two calls, as it may end.
  void raise_fault(const Status& why) noexcept;
  // Ends this rank's part, and returns whether that has told the others why.
  bool fail(const Status& why) noexcept;
  // Waits for work that a thread of its own does for step(): a call that has failed meanwhile may not be used for
  // something else before.
  void let_go();
  // Ends what is under way.
  void stop();
  // Finishes as MpiRuntime::finish() does. REQUIRES: stop().
  void finish(core::Closing& closing);

 private:
  enum class Step { idle, meeting, collecting, preparing, ready, launching, running, following };
  static constexpr const char* kHandedOver = "handed over its part of";
  static constexpr const char* kHadRun = "had run, for all ranks of its device,";

  int leader() const { return groups_->leader_of(description_.rank); }
  const std::vector<int>& group() const {
    return groups_->members[static_cast<size_t>(groups_->of[static_cast<size_t>(description_.rank)])];
  }
  MemberPages& pages() const { return own_.pages(); }
  void tell_groups() const;

  // Only the first call needs these.
  Result<bool> meet(const DeviceCall& call, const Status& handed_over, void (*idle)());
  Status open_pages(BoardBootstrap& all);

  // All members call these.
  void begin_call();
  Status submit(const DeviceCall& call);

  // The leader calls these.
  Status collect(const DeviceCall& call, void (*idle)());
  Result<bool> run_as_leader(const DeviceCall& call, BlockingOrder& blocking_order);

  // The other members call these.
  Result<Outcome> outcome(const DeviceCall& call);

  // step() calls these.
  Result<Outcome> go_on(DeviceCall& call, bool dry_runs);
  Result<Outcome> take_step(DeviceCall& call);
  Result<Outcome> end_step(bool done);
  Status begin_step(DeviceCall& call);
  Result<Outcome> go_on_meeting();
  Result<Outcome> go_on_collecting(const DeviceCall& call);
  Result<Outcome> go_on_preparing();
  Result<Outcome> be_ready();
  Result<Outcome> begin_launching();
  Result<Outcome> go_on_launching();
  Result<Outcome> go_on_running();
  Result<Outcome> go_on_following(const DeviceCall& call);

  const gc_comm_description& description_;
  CallMatcher& matcher_;
  const uint32_t meeting_;
  const std::shared_ptr<CauseLog> causes_;
  std::optional<DeviceGroups> groups_;  // once groups are known to be needed
  std::vector<gc_board_line> bound_;    // the lines by which the groups were made
  bool unneeded_ = false, staging_ = false;
  OwnPart own_;
  GroupLeader leader_;  // what it does, if this rank leads
  // The present call.
  uint64_t calls_ = 0;
  GroupWait wait_;
  Step step_ = Step::idle;
  bool dry_runs_ = false;
  BackgroundTask background_;
};

}  // namespace gpucoll::coll
