#include "coll/call/reductions.h"

#include <algorithm>

#include "coll/match/board_line.h"
#include "mpi/datatype/call_blocks.h"
#include "mpi/staging/packing.h"
#include "task/collective_task.h"
#include "task/types.h"

namespace gpucoll::coll {
namespace {

using proto::Function;

class ReductionMaker {
 public:
  ReductionMaker(const gc_call& call, const CallContext& context)
      : call_(call),
        context_(context),
        input_(whole(input_of(call))),
        element_(type_size(static_cast<gpucollDataType_t>(call.type))) {}
  Status make();

 private:
  Status add(Function function, const Block& send, const void* recv, size_t count, int root);
  Status all(Function function) { return add(function, input_, call_.recv.address, count_of(input_), call_.root); }
  Status reduce_scatter();
  Status reduce_scatter_blocks();
  Result<uint8_t*> result_in_scratch(size_t bytes);
  bool equal_counts() const;
  size_t count_of(const Block& block) const { return block.bytes / element_; }

  const gc_call& call_;
  const CallContext& context_;
  const Block input_;
  const size_t element_;  // bytes
};

// recv: the caller's address; count: of elements of the reduction.
Status ReductionMaker::add(Function function, const Block& send, const void* recv, size_t count, int root) {
  const Caller caller = {context_.device, context_.rank, context_.n_ranks, nullptr};
  CollectiveCall call = {function,
                         send.address,
                         const_cast<void*>(recv),
                         count,
                         static_cast<gpucollDataType_t>(call_.type),
                         static_cast<gpucollRedOp_t>(call_.op),
                         root,
                         nullptr};
  call.in_usable_memory = true;  // look_at_memory()
  GC_TRY_AS(const core::CollectiveTask task, make_task(caller, call));
  context_.queue.add(task);
  return {};
}

// In place, MPI wants the result where the input begins: it is made in scratch memory.
Result<uint8_t*> ReductionMaker::result_in_scratch(size_t bytes) {
  GC_TRY_AS(uint8_t * result, context_.scratch.get(context_.device, bytes));
  const auto address = context_.device.kernel_address(call_.recv.address);
  if (reduces_pairs_with_gaps(call_)) add_copy(context_.queue, &context_.queue.before, result, address, bytes);
  add_copy(context_.queue, &context_.queue.after, address, result, bytes);
  return result;
}

Status ReductionMaker::reduce_scatter() {
  const Block mine = block_of(input_of(call_), context_.rank, context_.n_ranks);
  const bool in_place = !call_.send.given;
  const void* const result = in_place ? mine.address : call_.recv.address;
  GC_TRY(add(Function::reduce_scatter, input_, result, count_of(mine), call_.root));
  if (in_place) {
    GC_TRY_AS(context_.queue.collectives.back().recv, result_in_scratch(mine.bytes));
  }
  return {};
}

bool ReductionMaker::equal_counts() const {
  return std::all_of(call_.recvcounts, call_.recvcounts + context_.n_ranks,
                     [&](int count) { return count == call_.recvcounts[0]; });
}

// A reduce to each rank, side by side.
Status ReductionMaker::reduce_scatter_blocks() {
  if (equal_counts()) return reduce_scatter();
  const uint8_t* input = input_.address;
  for (int root = 0; root < context_.n_ranks; ++root) {
    const auto count = static_cast<size_t>(call_.recvcounts[root]);
    const Block block = {input, count * element_};
    input += block.bytes;
    if (count == 0) continue;
    const bool aside = root == context_.rank && !call_.send.given;
    GC_TRY(add(Function::reduce, block, aside ? block.address : call_.recv.address, count, root));
    if (aside) {
      GC_TRY_AS(context_.queue.collectives.back().recv, result_in_scratch(block.bytes));
    }
  }
  return {};
}

Status ReductionMaker::make() {
  switch (call_.function) {
    case GC_FUNCTION_allreduce: return all(Function::all_reduce);
    case GC_FUNCTION_reduce: return all(Function::reduce);
    case GC_FUNCTION_scan: return all(Function::scan);
    case GC_FUNCTION_exscan: return all(Function::exscan);
    case GC_FUNCTION_reduce_scatter_block: return reduce_scatter();
    case GC_FUNCTION_reduce_scatter: return reduce_scatter_blocks();
    default: return Status::error(Code::internal, "no such reduction: %u", call_.function);
  }
}

}  // namespace

Status add_reductions(const gc_call& call, const CallContext& context) { return ReductionMaker(call, context).make(); }

}  // namespace gpucoll::coll
