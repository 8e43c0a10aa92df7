// Groups: calls between start and the outermost end are put together and carried out at that end.
//
// A thread has one group at a time (nested starts only count); a call outside of a group is a group of one. The end
// returns the first failure, of a call in the group or of the end itself; a group with a failure launches nothing. The
// end runs the jobs, makes missing connections, plans everything, and then launches everything: one communicator after
// another, in an order that all ranks share, and the ranks of one communicator in turn. So no launch waits for another
// launch of this thread, and communicators may share streams. Of shares of one Communicator, each is planned when
// those before it have been launched.
//
// Thread safety: everything here is the calling thread's own.
#pragma once
#include <functional>
#include <optional>
#include <span>
#include <utility>

#include "base/status.h"
#include "core/comm/comm_share.h"
#include "core/peer/call_records.h"
#include "core/plan/task.h"

namespace gpucoll::core {

bool group_open();
void group_start();
// Errors: invalid_usage without a start, and what the group's calls, connections and launches say. in_progress, which
// is told already, where all communicators of the group are such that do not block, and it has jobs or lacks
// connections: the rest goes on in the background. A failure there is one of the communicator.
Status group_end();
// Ends the group without carrying it out; returns the predicted time of its collectives in microseconds. Errors: as
// group_end(), and invalid_usage where there are jobs.
Result<double> group_simulate_end();

// How to carry out a call again that came alone and whose plan was kept.
struct Repeat {
  PlanCache::Hit plan;  // an empty one: it was not kept
  gpu::Stream stream = nullptr;
  std::optional<Call> call = {};  // none: messages
};

struct Message {
  bool is_send;
  int peer;
  SendRecvTask task;
};

// Add a task to the open group, or to a group of its own. A message to this rank itself needs its counterpart of the
// same size in the same group.
// call: the program's call, which must be the same on all ranks.
// repeat: gets what enqueue_again() needs, where no group is open and the call can be kept; may be null.
Status enqueue(const CommShare& share, const CollectiveTask& task, const Call& call, Repeat* repeat = nullptr);
// Carries out what enqueue() or enqueue_messages() would, for equal tasks on the same communicator. Returns false, and
// does nothing, where the process records a trace, the stream is capturing, or the plan is kept no more; else *status
// says what came of it. REQUIRES: no group is open.
bool enqueue_again(const CommShare& share, const Repeat& repeat, Status* status);
// Adds messages as enqueue() does a call: all of them to one group.
Status enqueue_messages(const CommShare& share, std::span<const Message> messages, Repeat* repeat = nullptr);
// Adds work that waits for other ranks (making a communicator), and runs it at once where no group is open. Jobs of a
// group run side by side, but jobs with the same in_order_with run one after another, as they were added. `cancel`
// tells the other ranks why a job is not run after all. The end calls it where no thread can be started for the job;
// and where the group has failed before, for a job that is in order with nothing: other ranks may wait for ever for
// what does not exist yet.
// in_background: says who learns what has come of it; without both, the job blocks.
using CancelJob = std::function<void(const Status&)>;
struct InBackground {
  std::shared_ptr<Progress> made, used;  // of what the job makes, and of the communicator that it uses
  explicit operator bool() const { return made || used; }
};
Status enqueue_job(std::function<Status()> job, const void* in_order_with, CancelJob cancel,
                   InBackground in_background = {});
// Returns whether the open group has such a job.
bool has_job(const void* in_order_with);
// Makes the open group fail with `status`, and returns it.
Status fail_open_group(Status status);
inline Status fail_group(Status status) { return status ? Status() : fail_open_group(std::move(status)); }
// Takes out again what is enqueued for a share, which is being destroyed or aborted.
void forget(const CommShare& share);

}  // namespace gpucoll::core
