#include "coll/call/device_part.h"

#include "base/mutant.h"
#include "base/observe/causes.h"
#include "coll/call/moves.h"
#include "coll/call/operands.h"
#include "coll/call/reductions.h"
#include "mpi/staging/buffer_memory.h"

namespace gpucoll::coll {
namespace {

// In place, one rank alone has all that it wants.
bool has_all(const gc_call& call, int n_ranks) {
  return n_ranks == 1 && !call.sources && !(call.send.given && call.recv.given);
}

}  // namespace

Status make_part(const gc_call& call, int rank, int n_ranks, gpu::Device* usual, Scratch& scratch, DevicePart* part) {
  part->clear();
  if (call.reduces && (call.type < 0 || call.op < 0))
    return Status::error(Code::unsupported, "its %s is none of gpucoll's", call.op < 0 ? "operation" : "type")
        .because(Cause::user_operation);
  BufferMemory memory;
  Status looked = look_at_memory(call, n_ranks, usual, &memory);
  const bool on_host = memory.send_on_host || memory.recv_on_host;
  part->device = memory.device;
  part->has_device_memory = memory.seen;
  part->has_host_memory = on_host;
  part->is_wrong = memory.lacks_memory;
  part->queue.results_on_host = memory.results_on_host;
  GC_TRY(std::move(looked));
  if (has_all(call, n_ranks)) return {};

  const CallContext context = {rank,    n_ranks,    *part->device, memory.send_on_host, memory.recv_on_host,
                               scratch, part->queue};
  gc_call packed = call;
  if (on_host || Packing::has_gaps(call)) GC_TRY(part->packing.pack(&packed, context));
  if (packed.combines) return add_operands(packed, context);
  if (packed.reduces && !packed.sources) return add_reductions(packed, context);
  Status moves = add_moves(packed, context);
  part->is_wrong = (moves.code() == Code::truncated || moves.code() == Code::invalid_argument) && !gc_mutant(596);
  return moves;
}

}  // namespace gpucoll::coll
