// Drives the first requests of a sequence through their steps until they run: they are decided, share a launch, and are
// launched. Gives them up where the ranks can no longer agree.
//
// Nothing here waits. RequestQueue calls go_on() again and again, with its lock held.
//
// Thread safety: one caller at a time; raise_faults() any thread. Ownership: owns the launcher, and borrows all that it
// is given.
#pragma once
#include <vector>

#include "coll/call/device_hints.h"
#include "coll/request/persistent_requests.h"
#include "coll/request/request_launcher.h"
#include "coll/request/request_order.h"
#include "coll/request/request_pool.h"
#include "coll/request/request_sequence.h"
#include "coll/shared_gpu/group_runtime.h"

namespace gpucoll::coll {

class RequestDriver {
 public:
  // Names the parts on which the driver works.
  struct Parts {
    gc_comm& comm;
    const gc_comm_description& description;
    CallMatcher& matcher;
    DeviceHints& hints;
    // Where nonblocking calls run.
    MpiRuntime& runtime;
    GroupRuntime& groups;
    PersistentRequests& persistent;
    RequestOrder& order;
    RequestSequence& sequence;
    RequestPool& pool;
  };
  explicit RequestDriver(const Parts& parts)
      : comm_(parts.comm),
        description_(parts.description),
        matcher_(parts.matcher),
        hints_(parts.hints),
        runtime_(parts.runtime),
        groups_(parts.groups),
        persistent_(parts.persistent),
        order_(parts.order),
        sequence_(parts.sequence),
        pool_(parts.pool),
        launcher_(parts.runtime) {}

  // Takes as many steps as can be taken now, also those of what runs and of persistent calls that are started.
  void go_on();
  // Returns whether no call runs on the device.
  bool settled() const noexcept { return launcher_.settled(); }
  // Tells the other ranks that they must not wait for what is under way. Calls that run on all ranks end by themselves.
  void abandon();
  // Ends all calls that are under way.
  void stop();
  // Gives up what persistent calls are started: the ranks can no longer agree.
  void give_up_starts(Status status);
  // Raises the fault of all runtime communicators: the others count on this rank, and learn why they cannot before it
  // ends.
  void raise_faults(const Status& why);

 private:
  bool step(Request& call);
  Result<bool> try_step(Request& call);
  Result<bool> decide(Request& call);
  Result<bool> join(Request& call);
  bool is_held(const Request& call);
  Result<bool> run_agreed(Request& call);
  Result<bool> run_on_device(Request& call);
  Result<bool> run_in_group(Request& call);
  Result<bool> prepare(Request& call);
  Result<bool> place(Request& call);
  Result<bool> can_go_along(DeviceCall& call);
  Result<bool> launch(Request& call);
  bool end_refused(Request& call, Status why);
  void give_to_host(Request& call);
  void weigh(const Request& call, bool on_device) noexcept;
  void look_at_running();
  void give_up(Request& call, Status status);
  void end_quietly(Request& call, Status status);
  // Returns the place of the first call of the sequence, or of the next one.
  CallId first_place() const noexcept;

  gc_comm& comm_;
  const gc_comm_description& description_;
  CallMatcher& matcher_;
  DeviceHints& hints_;
  MpiRuntime& runtime_;
  GroupRuntime& groups_;
  PersistentRequests& persistent_;
  RequestOrder& order_;
  RequestSequence& sequence_;
  RequestPool& pool_;
  RequestLauncher launcher_;
  std::vector<Request*> together_;  // launch()'s
};

}  // namespace gpucoll::coll
