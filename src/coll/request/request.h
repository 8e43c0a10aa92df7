// A collective that the engine has been given to run when its turn comes: a nonblocking one, or a persistent one from
// its init to its end.
//
// Thread safety: plain data of RequestQueue, but `state`, which is stored with release. Ownership: RequestQueue owns
// it.
#pragma once
#include <chrono>
#include <cstdint>

#include "base/observe/trace.h"
#include "coll/runtime/mpi_runtime.h"
#include "mpi/staging/buffer_memory.h"

namespace gpucoll::coll {

class GroupRuntime;
class RequestQueue;

struct Request : gc_pending {
  // A persistent one that has a place rests between its starts.
  enum class Stage {
    queued,
    published,
    joining,
    agreed,
    in_group,
    preparing,
    resting,
    started,
    launching,
    running,
    failed
  };
  explicit Request(RequestQueue& its_owner) : gc_pending{GC_WAITS}, owner(its_owner) {}
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;

  bool is_persistent() const noexcept { return call.place.function & GC_PERSISTENT; }
  // Returns whether the application has made it, but waits for nothing of it.
  bool is_idle() const noexcept { return is_persistent() && !start_requested; }
  // Returns whether the other ranks are still to answer it: it has been published, but there is no verdict.
  bool waits_for_others() const noexcept { return stage == Stage::published && state == GC_WAITS; }
  // Returns whether launching the call takes longer than its work: then it is worth sharing a launch. REQUIRES:
  // on_device.
  bool is_small() const noexcept;
  // Returns whether the call has not looked around for a while, and notes that it does now.
  bool time_to_look_around();
  void look_around_later();
  // Ends a call. For a persistent one it ends the start that is under way; where none is, all later starts will end so.
  void end_with(Status status);
  // Ends an idle one, that cannot be started any more: says nothing before a start is tried.
  void end_idle(Status status) noexcept;
  // Ends the call with the code that it has.
  void end() noexcept;

  RequestQueue& owner;
  // Where it runs; where ranks share a device: their groups.
  MpiRuntime* runtime = nullptr;
  GroupRuntime* groups = nullptr;
  Stage stage = Stage::queued;
  uint64_t own_number = 0;  // this rank's (gc_board_line::number), or less; 0: it is not ready for the call
  uint64_t number = 0;      // in the launch order; 0: not known
  bool on_device = false;   // on this rank
  DeviceCall call;
  Status wrong;            // what this rank calls, so that it refuses it
  bool abandoned = false;  // nobody asks for its end
  gc_board_line line = {};
  CallWait wait = {};
  std::chrono::steady_clock::time_point next_look_around;
  uint64_t launches = 0;  // that are done when it is
  Code code = Code::ok;   // once GC_ENDED
  // These belong to a call that is recorded (traced_calls.h).
  trace::Ongoing traced;
  uint64_t traced_group = 0, traced_bytes = 0;
  // For persistent calls.
  RememberedMemory memory;       // of its buffers, which the program may free between its starts
  Status unreported;             // of an idle one that has ended
  bool start_requested = false;  // between MPI_Start and its end
  bool in_group = false;         // a leader runs its starts, one after another (group_runtime.h)
  int slot = -1;                 // on the board, once it has a place
  uint64_t steps = 0;            // of the schedule, with the last one about it
};

}  // namespace gpucoll::coll
