// Carries out large allreduce, reduce and reduce_scatter by copy engines. They carry the operands to the rank that
// reduces them; a kernel there reduces what has come (kernels/local_reduce.h); then copy engines carry the result
// to the ranks that want it.
//
// The data are cut into shares, one for each rank that reduces, and shares into pieces. Pieces travel in rounds: in
// each round, every rank sends one piece to each other rank, in the order of distance, either operands or results, into
// its landing memory. The operands of three pieces go ahead, then a result and an operand in turn, so that links do not
// wait for kernels. Smaller pieces have more places to land. The work of a rank on what has landed is a list of steps,
// in the order of rounds: a step reduces operands, or moves a result into the output. One rank reduces a piece, in the
// order of ranks, so all ranks have the same bits (docs/adr/0016).
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
  return shape.copy_reduction_bytes && task.kernels.local &&
         reduces_by_copies(task.function, task.count * task.element_bytes, shape);
}

// Returns the largest piece for so many ranks that is not above `wanted`: landing memory is bounded.
uint64_t copy_piece_bytes(int n_ranks, uint64_t wanted);
// Returns the landing memory that a rank needs, whatever it reduces.
uint64_t landing_bytes(const CommProperties& shape);
// Returns how many blocks, at most `most`, reduce so many bytes of this device's memory
// (proto/format/local_reduction.h).
int local_blocks(uint64_t bytes, int most) noexcept;
// Returns `most` for a communicator's launches.
int most_local_blocks(const CommProperties& shape) noexcept;

struct CopyReductionPlan {
  // `from` holds the data once `after` steps have been launched. Sends are in the order in which they go.
  struct Send {
    uint64_t round;
    int peer;
    const uint8_t* from;
    uint64_t bytes;
    uint32_t after;
  };
  // Waits for what `sources` send in a round, and for this rank's own sends where it overwrites memory that they read.
  // It may have no kernel. After the last step of a round, the places of that round are free.
  struct Step {
    uint64_t round;
    std::vector<int> sources;
    bool last = true, waits_for_sends = false;
    // The launch of the kernel, which takes much more room than the numbers above.
    const gpu::Kernel* kernel = nullptr;
    int blocks = 0;
    proto::LocalReduction reduction = {};
  };
  std::vector<Send> sends;
  std::vector<Step> steps;
  int n_ranks = 0;
  uint64_t first_round = 0, rounds = 0;  // of this group
  uint64_t places = 1, place_bytes = 0;  // of the memory for what comes from one rank

  // Returns how many of the sends may be put on their stream before a step, or behind the last one. There is room for
  // these once all ranks have done all rounds before that step's round, so they never wait for anything that this rank
  // has yet to put.
  size_t sends_before(uint32_t step) const;
  // Returns how many rounds a rank must have used before there is room for the pieces of `round`.
  uint64_t used_before(uint64_t round) const {
    return first_round + (round - first_round < places ? 0 : round - first_round - places + 1);
  }
  // Returns the offset, in the landing memory of rank `at`, of what comes from rank `from` in a round.
  uint64_t landing_offset(uint64_t round, int at, int from) const { return offset(round, from - (from > at)); }
  // Returns the offset, behind all places, of the result of a round's operands, where the reducing rank does not keep
  // it. Used with more than two ranks.
  uint64_t result_offset(uint64_t round) const { return offset(round, n_ranks - 1); }

 private:
  uint64_t offset(uint64_t round, int index) const;
};
// Return whether the queue has collectives that go by copy engine, and their plan, one after the other. first_round:
// how many rounds there were before; landing: kernel address.
bool any_copy_reduction(const TaskQueue& queue, const CommProperties& shape);
CopyReductionPlan plan_copy_reduction(const TaskQueue& queue, int rank, const CommProperties& shape, uint8_t* landing,
                                      uint64_t first_round);
void plan_launch(const CopyReductionPlan::Step& step, const CommProperties& shape, bool results_on_host,
                 PlannedLaunch* launch);

}  // namespace gpucoll::core
