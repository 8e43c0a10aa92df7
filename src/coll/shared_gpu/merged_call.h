// From what the ranks of one device ask for to what their leader runs for all of them, on the communicator of the
// leaders (docs/adr/0023).
//
// - Messages, and collectives that only move, become messages between leaders, in the memory of those that they are
//   of. The two leaders have them in one order: by the rank that sends, then by the one that receives. What several
//   ranks of a device get (broadcast, allgather) crosses the link once, and is copied on (TaskQueue::spread).
// - Reductions begin with what the members have, in the order of their ranks (TaskQueue::reductions), go on between
//   the leaders, and end with copies. For scans a leader gets what the ranks before its members have, and reduces it
//   there (TaskQueue::late_reductions).
//
// Thread safety: pure functions, but for `scratch`, whose memory the call needs until it is done.
#pragma once
#include <span>

#include "coll/shared_gpu/device_groups.h"
#include "core/plan/task.h"
#include "mpi/staging/scratch.h"

namespace gpucoll::coll {

// Returns whether a leader can run such a queue: a matter of type and operation alone.
bool suits_groups(const core::TaskQueue& queue);

// parts: of the members of group `mine`, in their order, at addresses that kernels of the leader may use; the messages'
// peers are ranks of the MPI communicator. gaps: it reduces pairs with gaps (packing.h). *whole: the leader's, on no
// stream yet.
// Errors: invalid_argument, where members send each other what they do not receive; no memory for scratch.
Status compose(const DeviceGroups& groups, int mine, std::span<const core::TaskQueue* const> parts, bool gaps,
               gpu::Device& device, Scratch& scratch, core::TaskQueue* whole);

}  // namespace gpucoll::coll
