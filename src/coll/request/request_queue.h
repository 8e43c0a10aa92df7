// The nonblocking collectives of one MPI communicator that are under way (docs/adr/0014).
//
// Each call waits in a queue, in the order of the calls, which is the same on all ranks, until it is decided how it
// runs. Only the first is decided. When every rank has come to it with device memory it is launched, and the next one
// is first. As soon as one rank goes through the host it is the host's turn, and the next one is first when the
// application has begun it there. Ranks with host memory alone that wait for others' device memory (device_hints.h)
// come as these do. Small calls that wait behind the first may be launched with it, where rank 0 says so
// (docs/adr/0020). So launches of the runtime communicator have one order on all ranks, and so have the tags that the
// module below gives out. A call that has been launched is looked at until it is done.
//
// Where ranks share a device, a call that has been decided stays the first until it is done (group_runtime.h).
//
// Persistent calls stand in the queue when they are made. They leave it with a place among the PersistentRequests, or
// to be made on the host.
//
// The queue is what the application and the ProgressThread see: it has the lock, and knows when the thread is needed.
// RequestSequence keeps the calls in order, and RequestDriver takes them through their steps.
//
// Thread safety: any thread.
// Ownership: owns its calls, each until host_begun(), end() or, for persistent ones, free().
// Invariant: gc_comm::busy is set while calls are queued or lines may be needed.
#pragma once
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>

#include "coll/call/device_hints.h"
#include "coll/request/persistent_requests.h"
#include "coll/request/request_driver.h"
#include "coll/request/request_order.h"
#include "coll/request/request_pool.h"
#include "coll/request/request_sequence.h"
#include "coll/shared_gpu/group_runtime.h"
#include "mpi/progress_thread.h"

namespace gpucoll::coll {

class RequestQueue final : public ProgressClient {
 public:
  RequestQueue(gc_comm& comm, const gc_comm_description& description, CallMatcher& matcher, DeviceHints& hints,
               MpiRuntime& runtime, GroupRuntime& groups, const std::shared_ptr<CauseLog>& causes)
      : comm_(comm),
        description_(description),
        matcher_(matcher),
        runtime_(runtime),
        groups_(groups),
        persistent_(description, matcher, causes, [this](uint64_t number) { return order_.may_start(number); }),
        order_(description, matcher, persistent_, groups, this),
        sequence_(description, matcher, order_),
        driver_({comm, description, matcher, hints, runtime, groups, persistent_, order_, sequence_, pool_}) {}
  ~RequestQueue() override { stop(); }
  RequestQueue(const RequestQueue&) = delete;
  RequestQueue& operator=(const RequestQueue&) = delete;

  // Starts a call as gc_abi.start does; returns null where it goes through the host at once.
  Result<Request*> start(uint32_t function, const gc_call* call);
  // Refuses a call as gc_abi.refuse does, of a function that is counted.
  void refuse(uint32_t function);
  // Makes progress until no other rank needs what this rank has published: a call may end here before others have read
  // its line, and nobody asks for one that is refused.
  void await_readers();
  bool progress() override;
  bool progress_on_thread() override;
  // Makes progress for a thread of the application that waits. The thread holds no lock.
  void turn();
  void host_begun(Request* call);
  Code end(Request* call);
  // Restart and publish as gc_abi.restart and gc_abi.publish_starts do.
  void restart(Request* call);
  void publish_starts();
  void free(Request* call);
  // Returns the runtime on which persistent calls run.
  MpiRuntime& persistent_runtime() noexcept { return persistent_.runtime(); }
  // Raises the fault of all runtime communicators of this MPI communicator.
  void raise_faults(const Status& why) { driver_.raise_faults(why); }
  // Returns whether any call has not been begun.
  bool queued() const noexcept { return sequence_.any(); }
  uint64_t first_ready() const noexcept override { return order_.first_ready(); }
  uint64_t first_due() const noexcept override { return order_.first_due(); }
  bool puts_behind(uint64_t number) override;
  // Returns whether no call runs on the device.
  bool settled();
  // Tells the other ranks that they must not wait for what is under way.
  void abandon();
  // Ends all calls that are under way.
  void stop();
  // Finishes the persistent calls' runtime communicators. Behind that, and once the other runtime communicators are
  // finished, release() gives device memory back. REQUIRES: stop().
  void finish(core::Closing& closing);
  void release();

 private:
  using Clock = std::chrono::steady_clock;

  // Takes a request for a call of this function, which knows where it runs.
  Request* take(uint32_t function);
  bool passes_by(uint32_t function);
  template <class Condition>
  void go_on_a_little_while(const Condition& condition);
  // Returns whether any call waits for other ranks.
  bool waits() const noexcept { return queued() || persistent_.any_started(); }
  void leave_to_thread();
  void plan(Request* call, const gc_call* device_call);
  void enqueue(Request* call, const gc_call* device_call);
  void refuse_start(Request& call, Status why);

  gc_comm& comm_;
  const gc_comm_description& description_;
  CallMatcher& matcher_;
  MpiRuntime& runtime_;
  GroupRuntime& groups_;
  PersistentRequests persistent_;
  RequestOrder order_;
  RequestSequence sequence_;
  RequestPool pool_;
  RequestDriver driver_;
  std::mutex mutex_;
  // The device runs on processors, or several ranks may wait for one that launches for them.
  std::atomic<bool> needs_processors_{false};
  std::atomic<bool> on_thread_{false};  // the ProgressThread's thread has it, or is about to get it
  bool known_ = false;                  // to the ProgressThread
};

}  // namespace gpucoll::coll
