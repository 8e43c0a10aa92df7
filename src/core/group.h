// Groups: calls between start and the outermost end are put together and carried out at that end.
//
// A thread has one group at a time (nested starts only count). What fails while enqueuing, or at the end, is the
// end's result; the first failure wins, and a group with a failure launches nothing.
// Thread safety: everything here is the calling thread's own.
#pragma once
#include <functional>

#include "base/status.h"
#include "core/communicator.h"

namespace gpucoll::core {

bool group_open();
void group_start();
// The outermost end runs the jobs (side by side, since they wait for each other), makes missing connections, and
// launches all tasks. Errors: invalid_usage without a start.
Status group_end();

// Adds a task to the open group, or to one of its own.
Status enqueue(Communicator& communicator, const Task& task);
// Adds work that waits for other ranks (making a communicator); at once where no group is open.
Status enqueue_job(std::function<Status()> job);
// Makes the open group fail with `status`; returns it.
Status fail_group(Status status);
// Takes what is enqueued for a communicator out again (it is being destroyed or aborted).
void forget(const Communicator& communicator);

}  // namespace gpucoll::core
