// Runs the collectives of one MPI communicator on the device by a runtime communicator, which the first of them makes,
// and knows whether that can be used at all.
//
// The life of a collective: plan() its part. Once every rank has come with device memory: fits(), prepare(), begin(),
// and advance() until it is true; launched() of the communicator says what has_run() is to look for. Then store what
// lies in host memory. The answers of fits() and prepare() are equal on all ranks. Several calls that are
// prepared() may be put together into one queue.
// Thread safety: one caller at a time; but plan(), get() and, once that is not null, bound() also beside prepare().
// Ownership: owns the runtime communicator.
#pragma once
#include <atomic>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "abi/abi.h"
#include "base/mutant.h"
#include "coll/call/device_part.h"
#include "coll/match/call_matcher.h"
#include "coll/runtime/run_counts.h"
#include "coll/runtime/staging.h"
#include "core/comm/closing.h"
#include "core/comm/communicator.h"

namespace gpucoll::coll {

// A collective that this rank has entered with device memory.
struct DeviceCall {
  CallId place = {};
  DevicePart part;
  bool pairs_with_gaps = false;  // it reduces pairs with gaps (packing.h)
  Scratch scratch;
  gc_board_line line = {};           // of this rank, as it is published
  std::vector<gc_board_line> lines;  // of all ranks, once they have come
  bool has_run_so = false;           // it has run while all ranks had these lines
  core::PlanCache::Hit kept;         // once prepared()

  // Takes what another call is. REQUIRES: that has tasks alone, it has run, and nothing is under way.
  void take_tasks(DeviceCall& other) {
    part.device = other.part.device;
    part.has_device_memory = other.part.has_device_memory;
    std::swap(part.queue, other.part.queue);
    pairs_with_gaps = other.pairs_with_gaps;
    line = other.line;
    std::swap(lines, other.lines);
    has_run_so = true;
    kept = other.kept;
  }
};

class MpiRuntime {
 public:
  // meeting: where the ranks make it, GC_MEETING_*.
  // Makes a runtime of all ranks, or (set_ranks(), before prepare()) of some, this rank among them.
  MpiRuntime(const gc_comm_description& description, CallMatcher& matcher, uint32_t meeting,
             std::shared_ptr<CauseLog> causes)
      : description_(description), matcher_(matcher), meeting_(meeting), staging_(std::move(causes)) {}

  void set_ranks(std::vector<int> ranks) { ranks_ = std::move(ranks); }

  // Returns null until the first collective on the device.
  // acquire: partner is the release in make().
  core::Communicator* get() const noexcept { return made_.load(std::memory_order_acquire); }

  // Returns the lines by which the ranks made the runtime communicator.
  const std::vector<gc_board_line>& bound() const noexcept { return bound_; }

  // Makes this rank's part of a call, and returns whether it can run on its device. Errors: the part is_wrong, so
  // that the host could not run the call either.
  Result<bool> plan(const gc_call& call, DeviceCall* made);
  Staging& staging() noexcept { return staging_; }
  const Staging& staging() const noexcept { return staging_; }
  // Sends all calls through the host from now on, because of what rank `because_of` is or can. plan() tells of each.
  void stage_for_ever(int because_of, const Status& why);

  // Return whether the ranks' devices can work together; fits() tells where they cannot. if_shared: the cause where
  // ranks share one.
  bool suits(const DeviceCall& call) const;
  bool fits(const DeviceCall& call, Cause if_shared = Cause::shared_gpu_off);
  // Returns whether nothing is missing for the call: then prepare() would not wait. A call that came out of plan() has
  // no streams yet; one that is still kept as it was prepared() before is not looked up anew.
  Result<bool> prepared(DeviceCall& call) {
    if (is_kept(call)) return true;  // begin() looks at the fault
    return looked_up(call);
  }
  // Returns whether the call is still kept as it was prepared() before.
  bool is_kept(const DeviceCall& call) const noexcept { return runtime_ && runtime_->is_kept(call.kept); }
  // Makes what is missing. Returns false where no runtime communicator can be made, and from now on all calls go
  // through the host. Errors: the runtime communicator has failed; it stays until finish(), as others may be looking at
  // it. Or a rank has died, or does not come within the parameter timeout. Collective; waits for the other ranks.
  Result<bool> prepare(DeviceCall& call, void (*idle)());
  // Puts the call on the stream. waits: the caller waits for it next, by wait() of the communicator.
  Status begin(const DeviceCall& call, bool waits = false) {
    call.part.packing.on_host().load();
    return runtime_->begin(call.part.queue, shape_, waits, call.kept);
  }
  // Returns whether a call that is prepared() has the same bits when it runs beside others.
  bool joins(const DeviceCall& call) const;
  // Returns whether calls that have been prepared() one by one can be begun together: equal on all ranks where the
  // calls are.
  bool connected(const core::TaskQueue& together) const;
  // Begins several calls. REQUIRES: connected(); data in host memory have been loaded.
  Status begin(const core::TaskQueue& together);
  // Launches what there is room for, and returns whether all of it is launched now. holds_end: the program, or a thread
  // of it, may go on meanwhile (Launcher::advance).
  Result<bool> advance(bool holds_end) {
    GC_TRY_AS(const bool all, runtime_->advance(holds_end));
    const uint64_t launched = runtime_->launched();
    RunCounts::count_launches(launched - std::exchange(counted_, launched));
    return all;
  }
  // Begin a blocking call and launch all of it, with MPI progress; and wait for its end. If the program has threads,
  // one of them may free memory meanwhile.
  Status launch(const DeviceCall& call) {
    GC_TRY(begin(call, true));
    for (;;) {
      GC_TRY_AS(const bool all, advance(description_.threads != 0 && !gc_mutant(621)));
      if (all) return {};
      description_.calls->progress();
    }
  }
  Status await_end() {
    GC_TRY(runtime_->wait(runtime_->launched(), description_.calls->progress));
    RunCounts::count_run();
    return {};
  }
  // Returns whether the call that has made it `launches` is done, and counts it. Errors: the fault of the runtime
  // communicator, once the call is done or kernels have had time to leave.
  Result<bool> has_run(uint64_t launches);

  // Waits for what is running, and hands the runtime communicator to `closing`. The runtime has work no more then.
  void finish(core::Closing& closing);

 private:
  bool same_devices(const std::vector<gc_board_line>& lines) const;
  Status make(const DeviceCall& call, void (*idle)());
  Status put_on_stream(DevicePart& part);
  Result<bool> looked_up(DeviceCall& call);

  const gc_comm_description& description_;
  CallMatcher& matcher_;
  const uint32_t meeting_;
  std::vector<int> ranks_;  // empty: all
  Staging staging_;
  std::atomic<gpu::Device*> usual_{nullptr};  // the runtime communicator's device
  std::vector<gc_board_line> bound_;          // the lines by which the runtime communicator was made
  core::CommProperties shape_ = {};           // between prepare() and begin()
  uint64_t counted_ = 0;                      // launches of the runtime communicator
  std::chrono::steady_clock::time_point fault_seen_ = {};
  std::unique_ptr<core::Communicator> runtime_;
  std::atomic<core::Communicator*> made_{nullptr};  // the same, for other threads
};

}  // namespace gpucoll::coll
