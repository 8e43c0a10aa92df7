// Plans large allreduce, reduce_scatter and, of two ranks, reduce, that copy engines carry round a ring of the ranks.
//
// A rank sends to the next one alone, so at any moment one rank writes to each device, whether the ranks keep in step
// or not: what decides the rate of copy engines (docs/adr/0022). A copy engine brings a piece into the landing memory
// of the next rank; a kernel there (kernels/local_reduce.h) reduces it with the rank's own operand, or moves it into
// the output; then the next copy takes it on. Pieces are counted in rounds: in each round a rank sends at most one and
// receives at most one.
//   - allreduce: 2(n-1) steps of a ring, each of some pieces of a chunk; chunk c is op(... op(x[c], x[c+1]) ...,
//   x[c-1])
//   - reduce_scatter: n-1 steps; block b is op(... op(x[b+1], x[b+2]) ..., x[b])
//   - reduce: the other rank sends all to the root; op(x[root+1], x[root])
// One rank completes an element, so all ranks have the same bits (docs/adr/0042).
// Pure functions of facts that are equal on all ranks, so that all ranks do alike.
#pragma once
#include <vector>

#include "core/plan/planner.h"
#include "core/plan/task.h"
#include "core/plan/tuner.h"
#include "proto/format/local_reduction.h"

namespace gpucoll::core {

// Returns from how many bytes (count x element size of the task) on copy engines reduce; 0: never.
uint64_t least_copy_reduction(Function function, const CommProperties& shape);
// Return whether copy engines carry the reduction; the second asks also whether there is a kernel for it.
bool reduces_by_copies(Function function, uint64_t bytes, const CommProperties& shape);
inline bool reduces_by_copies(const CollectiveTask& task, const CommProperties& shape) {
  return shape.copies.reductions && task.kernels.local &&
         reduces_by_copies(task.function, task.count * task.element_bytes, shape);
}

// Returns the largest piece that is not above `wanted`: landing memory is bounded.
uint64_t copy_piece_bytes(uint64_t wanted);
// Returns the landing memory that a rank needs, whatever it reduces.
uint64_t landing_bytes(const CommProperties& shape);
// Returns how many blocks, at most `most`, reduce so many bytes of this device's memory
// (proto/format/local_reduction.h).
int local_blocks(uint64_t bytes, int most) noexcept;
// Returns `most` for a communicator's launches.
int most_local_blocks(const CommProperties& shape) noexcept;

struct CopyReductionPlan {
  // A piece for the next rank. `from` holds the data once `after` steps have been launched. In the order in which they
  // go.
  struct Send {
    uint64_t round;
    const uint8_t* from;
    uint64_t bytes;
    uint32_t after;
  };
  // A kernel works on the piece that the previous rank sends in a round. A rank that receives nothing has one step
  // without a kernel.
  struct Step {
    uint64_t round;
    // The launch of the kernel, which takes much more room than the number above.
    const gpu::Kernel* kernel = nullptr;
    int blocks = 0;
    proto::LocalReduction reduction = {};
  };
  // So many rounds are used, as the previous rank is to know, once so many steps have been launched and sends have
  // ended.
  struct Consumed {
    uint64_t rounds;
    uint32_t steps;
    size_t sends;
  };
  std::vector<Send> sends;
  std::vector<Step> steps;
  std::vector<Consumed> consumed;
  uint64_t first_round = 0, rounds = 0;  // of this group
  uint64_t places = 1, place_bytes = 0;  // of the landing memory
  uint64_t held = 0;                     // a piece stays in its place until the sends of so many rounds later

  // Returns how many of the sends may be put on their stream before a step, or behind the last one. There is room for
  // these once all ranks have done all rounds before that step's round, so they never wait for anything that this rank
  // has yet to put.
  size_t sends_before(uint32_t step) const;
  // Returns how many rounds the next rank must have used before there is room for the piece of `round`. It is the same
  // for half the places: to wait for room costs a stream some microseconds.
  uint64_t used_before(uint64_t round) const {
    const uint64_t half = places / 2, halves = (round - first_round) / half;
    return first_round + (halves < 2 ? 0 : (halves - 1) * half);
  }
  // Returns the offset in the landing memory of the piece of a round.
  uint64_t landing_offset(uint64_t round) const { return (round - first_round) % places * place_bytes; }
};
// Return whether the queue has collectives that go by copy engine, and their plan, one after the other. first_round:
// how many rounds there were before; landing: kernel address.
bool any_copy_reduction(const TaskQueue& queue, const CommProperties& shape);
CopyReductionPlan plan_copy_reduction(const TaskQueue& queue, int rank, const CommProperties& shape, uint8_t* landing,
                                      uint64_t first_round);
void plan_launch(const CopyReductionPlan::Step& step, const CommProperties& shape, bool results_on_host,
                 PlannedLaunch* launch);

}  // namespace gpucoll::core
