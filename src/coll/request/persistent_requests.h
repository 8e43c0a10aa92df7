// The persistent collectives of one MPI communicator that run on the device (docs/adr/0018).
//
// The queue of the nonblocking calls decides, when a call is made, whether it runs here. If so, it has a place until it
// is freed: a slot on the board, its tasks and its connections. Each start is published. The ranks launch what all of
// them have started in the order of rank 0's schedule, on a runtime communicator of their own: that order has nothing
// to do with that of other collectives, since MPI allows each rank to start persistent ones at another point. Where
// ranks share a device, its leader runs them, one after another, with a communicator of the leaders that serves only
// these calls.
//
// Thread safety: one caller at a time; any_started() at any time. Ownership: owns the runtime communicators; borrows
// the calls.
#pragma once
#include <atomic>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "coll/request/persistent_schedule.h"
#include "coll/request/request_launcher.h"
#include "coll/shared_gpu/group_runtime.h"

namespace gpucoll::coll {

class PersistentRequests {
 public:
  // may_launch: returns whether all earlier calls of this process are launched, those with smaller numbers than
  // `number`.
  PersistentRequests(const gc_comm_description& description, CallMatcher& matcher,
                     const std::shared_ptr<CauseLog>& causes, std::function<bool(uint64_t number)> may_launch)
      : description_(description),
        matcher_(matcher),
        runtime_(description, matcher, GC_MEETING_PERSISTENT, causes),
        groups_(description, matcher, {GC_MEETING_PERSISTENT_GROUPS, GC_MEETING_PERSISTENT_LEADERS}, causes),
        launcher_(runtime_),
        schedule_(description, matcher),
        in_slot_(PersistentSchedule::kSlots),
        may_launch_(std::move(may_launch)) {}

  MpiRuntime& runtime() noexcept { return runtime_; }
  GroupRuntime& groups() noexcept { return groups_; }
  // Gives a place to a call that all ranks make now and can run. Call it again until it says more than `waiting`.
  // `impossible`: the call goes through the host on all ranks.
  Result<RequestLauncher::Readiness> place(Request& call);
  // Returns what keeps the call from ever having a place: see ArrivalWatch::look_around().
  Status look_around_for_place(Request& call);
  // Starts a call that has a place and is not started. From publish_starts() on go_on() drives it until its state is
  // GC_ENDED.
  void start(Request& call);
  void publish_starts() noexcept { schedule_.publish_starts(); }
  // Gives the call's place back for others. REQUIRES: the call is not started.
  void free(Request& call);
  // Forgets a call that place() has failed for.
  void let_go(Request& call);
  // Returns whether what is under way needs processors of this host: then a thread that waits had better leave them to
  // it.
  bool needs_processors() const noexcept {
    return (!idle() && runtime_.get() && runtime_.get()->device().is_emulated()) || groups_.needs_processors();
  }
  // Returns whether a call is started, but not launched.
  bool any_started() const noexcept { return n_started_.load() != 0; }
  // Reads what is to be launched.
  void look();
  // Returns the number, in the launch order, of the first start that this rank has yet to launch; 0: none has one.
  uint64_t first_due() const noexcept;
  // Sees to it that other starts get greater numbers than `number`. Returns false where one has a number already, or is
  // about to.
  bool puts_behind(uint64_t number) const noexcept {
    return stopped_ || !any_started() || schedule_.puts_behind(number);
  }
  // Drives what is started. Errors: the ranks can no longer agree; fail() must follow.
  Status go_on();
  // Ends all started calls with `status`, once no kernel uses their buffers; launches nothing more.
  void fail(Status status);
  // Ends what is started. Other ranks may go on.
  void stop(const Status& status);
  // Finishes the runtime communicators, as MpiRuntime::finish() does. REQUIRES: stop().
  void finish(core::Closing& closing);

 private:
  using Clock = std::chrono::steady_clock;
  bool idle() const noexcept {
    return !placing_ && !any_started() && launcher_.settled() && steps_.empty() && unreported_.empty();
  }
  void write_schedule();
  // Carries out steps, and returns how many of the first steps that are left are over now.
  Result<size_t> carry_out();
  Result<bool> give_place(const PersistentSchedule::Step& scheduled);
  Status find_starts();
  Result<size_t> launch();
  Result<RequestLauncher::Readiness> dry_run(Request& call);
  Result<size_t> run_in_group(Request& call);
  // Returns the number of the first step that is left.
  uint64_t present_step() const noexcept { return schedule_.read() - steps_.size() + 1; }
  Status look_at_running();
  void tell();
  void end_started(const Status& status);
  Status look_around();

  const gc_comm_description& description_;
  CallMatcher& matcher_;
  MpiRuntime runtime_;
  GroupRuntime groups_;
  RequestLauncher launcher_;
  PersistentSchedule schedule_;
  std::vector<Request*> in_slot_;
  std::function<bool(uint64_t number)> may_launch_;
  std::deque<PersistentSchedule::Step> steps_;  // read, but not carried out
  std::vector<Request*> starts_;                // the starts of the first steps, which join each other
  std::deque<Request*> unreported_;             // ended, but the application has not been told
  Request* in_group_ = nullptr;                 // the call whose start the groups run
  Request* placing_ = nullptr;                  // the first call in the queue of nonblocking ones
  RequestLauncher::Readiness placed_ = {};      // what has become of placing_
  bool place_scheduled_ = false;
  bool stopped_ = false;
  std::atomic<int> n_started_{0};
  Clock::time_point next_look_around_ = {};
};

}  // namespace gpucoll::coll
