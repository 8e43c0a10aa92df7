// Format: what a kernel is told that reduces what lies in this device's memory, the last step of a large reduction
// whose operands copy engines have brought (core/plan/copy_engine_reduction.h).
//
// The plan of such a kernel has no batches: one LocalReduction, in place of two WorkItems, in the plan itself. Written
// by the host; every block works for it. The kernel waits for nobody: the stream has done that, which is let go after a
// fault, whenever that may be: what the program has done with its memory since is not overwritten.
#pragma once
#include <cstdint>

#include "proto/format/plan.h"

namespace gpucoll::proto {

// result = op(... op(x[0], x[1]) ..., x[n_ranks - 1]), x[rank] being this rank's own and the others lying `stride`
// apart in the order of their ranks. With more than three operands, the first of the others is overwritten on the way.
// A result may be `own`, or an operand, but not lie across one. Of one rank it is a copy of its own. All are kernel
// addresses.
inline constexpr int kMoreResults = 2;
struct LocalReduction {
  const uint8_t* own;
  uint8_t* others;
  uint8_t* result;
  uint64_t stride;
  uint64_t count;     // elements
  uint64_t argument;  // of Reduction
  uint32_t rank, n_ranks;
  uint8_t op;       // of the kernel's family
  uint8_t waited;   // whether its stream has waited for other ranks: then nothing is done once the fault latch is set
  uint8_t n_more;   // the result is stored to so many other places as well
  uint8_t reduced;  // x[0] is the result of some ranks' operands, no operand itself
  uint8_t partial;  // other ranks' operands are still to come
  uint8_t reserved[3];
  uint8_t* more[kMoreResults];
};
inline constexpr uint32_t kItemsOfLocalReduction = 2;  // WorkItems, in Plan::n_items
static_assert(sizeof(LocalReduction) == 80 && sizeof(LocalReduction) <= kItemsOfLocalReduction * sizeof(WorkItem));

GC_HD const LocalReduction& local_reduction(const Plan& plan) {
  return *reinterpret_cast<const LocalReduction*>(plan.work);
}
GC_HD LocalReduction& local_reduction(Plan& plan) { return *reinterpret_cast<LocalReduction*>(plan.work); }

// A block's turn: so many bytes of each operand.
inline constexpr uint64_t kLocalTile = 64 << 10;

}  // namespace gpucoll::proto
