// Decides for one MPI communicator how to run each collective. This is the engine's side of the communicator.
//
// All facts that decide are equal on all ranks that look: the lines of the board, and facts about the members that came
// with the modex. A rank publishes what only it can see (a board that it cannot open, a buffer that cannot be used) as
// GC_KIND_HOST before anybody decides. It publishes wrong arguments as GC_KIND_REFUSED, which ends that call alone. A
// rank that fails alone says so on the board from then on.
//
// Thread safety: run() and start() one caller at a time (MPI's rule for a communicator's collectives), beside it any
// function of requests(). Invariant: while a blocking collective runs on the device, no nonblocking one is launched.
#pragma once
#include <memory>
#include <vector>

#include "abi/abi.h"
#include "coll/call/device_hints.h"
#include "coll/match/blocking_order.h"
#include "coll/match/call_matcher.h"
#include "coll/request/request_queue.h"
#include "coll/runtime/kept_calls.h"
#include "coll/runtime/mpi_runtime.h"
#include "coll/shared_gpu/group_runtime.h"

namespace gpucoll::coll {

class MpiCommunicator : public gc_comm {
 public:
  // Makes the engine's side of a communicator. Local. Errors: out_of_memory when the board has no room.
  static Result<std::unique_ptr<MpiCommunicator>> create(const gc_comm_description& description);
  ~MpiCommunicator();

  enum class Answer { done, stage };
  // Returns what is kept of a blocking call that comes now; null where that is nothing.
  template <class Key>
  KeptCall* find(const Key& call) {
    drain();
    return runtime().staging().for_all() ? nullptr : kept_.find(call);
  }
  // kept: the call as find() has found it, if it has.
  Result<Answer> run(const gc_call& call, DeviceCall* kept);
  // Starts a call as gc_abi.start does.
  Result<Request*> start(uint32_t function, const gc_call* call);
  RequestQueue& requests() { return device_side().requests; }
  // Refuses a call as gc_abi.refuse does.
  void refuse(uint32_t order, uint32_t function);
  // Tells of a slow call as gc_abi.tell_slow does.
  void tell_slow(uint32_t function, Cause cause) { device_side().causes->tell(cause, function_name(function)); }
  // Looks at wishes as gc_abi.look_at_wishes does.
  void look_at_wishes(uint32_t form);
  // Makes progress until every nonblocking collective has been begun.
  void drain();

  // Returns what tells the communicator from others, equal on all ranks; and how many ranks it has.
  uint64_t name() const noexcept { return matcher_.name(); }
  int size() const noexcept { return description_.size; }

  // Tells the others not to wait for what is under way here, at the end of MPI. Call it before stop(), which waits.
  void abandon();
  // Ends what is under way; calls that run on all ranks end by themselves.
  void stop();
  // Waits for what is running, and hands the runtime communicators to `closing`. They have work no more then.
  // REQUIRES: stop().
  void finish(core::Closing& closing);

 private:
  // Runs collectives on devices. Programs make many communicators, most of which never see device memory.
  struct DeviceSide {
    DeviceSide(gc_comm& comm, const gc_comm_description& description, CallMatcher& matcher, DeviceHints& hints)
        : causes(std::make_shared<CauseLog>(description.name, matcher.name())),
          runtime(description, matcher, GC_MEETING_FIRST, causes),
          groups(description, matcher, {GC_MEETING_GROUPS, GC_MEETING_LEADERS}, causes),
          requests(comm, description, matcher, hints, runtime, groups, causes),
          blocking_order(description, matcher) {}
    const std::shared_ptr<CauseLog> causes;
    MpiRuntime runtime;
    GroupRuntime groups;
    RequestQueue requests;
    BlockingOrder blocking_order;
  };

  explicit MpiCommunicator(const gc_comm_description& description);
  DeviceSide& device_side() { return device_side_ ? *device_side_ : make_device_side(); }
  DeviceSide& make_device_side();
  MpiRuntime& runtime() { return device_side().runtime; }
  GroupRuntime& groups() { return device_side().groups; }
  void find_peers();
  // Makes the present call into this rank's part and line. Returns false where this rank does not run it on its device.
  Result<bool> make(const gc_call& call, Status* refusal);
  // mpi_communicator.cpp alone calls the inline functions, and each blocking call comes through them.
  // Publishes what this rank does, and returns whether every rank can run it on its device. *refusal says so where a
  // rank refuses.
  inline Result<bool> enter(const gc_call& call, Status* refusal);
  inline Result<bool> wait_for_others(const gc_call& call, bool device_memory, Status* refusal);
  inline Result<Answer> execute(const gc_call& call, bool same);
  bool fits(const gc_call& call);
  Result<Answer> run_in_groups(const gc_call& call);
  inline Result<Answer> run_on_device(const gc_call& call);
  inline Status take_number();
  Status reduce_within_group(const gc_call& call);
  Result<bool> prepare();
  inline Component* among();
  bool is_everybody();
  bool knows_neighbors(const gc_call& call);
  inline void take_lines();

  gc_comm_description description_;
  CallMatcher matcher_;
  DeviceHints hints_;
  std::unique_ptr<DeviceSide> device_side_;  // null until the first call that is not host memory alone
  bool peers_found_ = false;
  KeptCalls kept_;             // blocking calls that may come again
  DeviceCall made_;            // a blocking call that is made anew; it keeps its room
  DeviceCall* call_ = &made_;  // the present blocking call: this, or one of kept_
  Component component_;        // empty until the first one in GC_ORDER_NEIGHBORS
};

}  // namespace gpucoll::coll
