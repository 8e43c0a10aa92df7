// Groups: calls between start and the outermost end are put together and carried out at that end.
//
// A thread has one group at a time (nested starts only count); a call outside of a group is a group of one. What fails
// while enqueuing, or at the end, is the end's result; the first failure wins, and a group with a failure launches
// nothing. At the end: jobs; then connections that are missing; then everything is planned; then everything is
// launched, one communicator after another in an order that all ranks share, ranks of one communicator in turn: no
// launch waits for another one of this thread, and communicators may share streams. Of tenants of one Communicator,
// each is planned when those before it have been launched.
//
// Thread safety: everything here is the calling thread's own.
#pragma once
#include <functional>

#include "base/status.h"
#include "core/call_records.h"
#include "core/task.h"
#include "core/tenant.h"

namespace gpucoll::core {

bool group_open();
void group_start();
// Errors: invalid_usage without a start, and what the group's calls, connections and launches say.
Status group_end();

// Add a task to the open group, or to one of its own. A message to this rank itself needs its counterpart of the same
// size in the same group.
// call: what the program has called, which must be the same on all ranks.
Status enqueue(const Tenant& tenant, const CollectiveTask& task, const Call& call);
Status enqueue_send(const Tenant& tenant, int peer, const PairTask& task);
Status enqueue_recv(const Tenant& tenant, int peer, const PairTask& task);
// Adds work that waits for other ranks (making a communicator); at once where no group is open. Jobs of a group run
// side by side, but those with the same in_order_with one after another, as they were added. `cancel` tells the other
// ranks why the job is not run after all: since the group failed before (where it is in order with nothing: for what is
// not there yet the others may wait for ever), or since no thread can be started for it.
using CancelJob = std::function<void(const Status&)>;
Status enqueue_job(std::function<Status()> job, const void* in_order_with, CancelJob cancel);
// Whether the open group has such a job.
bool has_job(const void* in_order_with);
// Makes the open group fail with `status`; returns it.
Status fail_group(Status status);
// Takes what is enqueued for a tenant out again (it is being destroyed or aborted).
void forget(const Tenant& tenant);

}  // namespace gpucoll::core
