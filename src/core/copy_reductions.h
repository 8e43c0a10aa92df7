// Large allreduce, reduce and reduce_scatter by copy engines: these carry the operands to the rank that reduces them,
// a kernel there reduces what has come (coll/device/local_reduce.h), copy engines carry the result to whoever wants it.
//
// The data are cut into shares, one for each rank that reduces, and shares into pieces. They travel in rounds: in each,
// every rank sends the others one piece each, in the order of distance, either operands or results, into their landing
// memory. The operands of three pieces go ahead, then a result and an operand in turn; so links do not wait for
// kernels. Smaller pieces have more places to land. What a rank does with what has landed are steps, in the order of
// rounds: it reduces operands, or moves a result into its output. A piece is reduced in the order of ranks, by one
// rank, so all ranks have the same bits (docs/adr/0016).
//
// Pure functions of facts that are equal on all ranks, so that all of them do alike.
#pragma once
#include <vector>

#include "core/planner.h"
#include "core/task.h"
#include "core/tuner.h"
#include "proto/format/local_reduction.h"

namespace gpucoll::core {

// From how many bytes (count x element size of the task) on; 0: never.
uint64_t least_copy_reduction(Function function, const CommShape& shape);
// Where the reduction has a kernel for it.
bool reduces_by_copies(Function function, uint64_t bytes, const CommShape& shape);
inline bool reduces_by_copies(const CollectiveTask& task, const CommShape& shape) {
  return shape.copy_reduction_bytes && task.kernels.local &&
         reduces_by_copies(task.function, task.count * task.element_bytes, shape);
}

// The largest piece of so many ranks, by what is wanted: landing memory is bounded.
uint64_t copy_piece_bytes(int n_ranks, uint64_t wanted);
// The landing memory that a rank needs, whatever it reduces.
uint64_t landing_bytes(const CommShape& shape);
// Blocks, at most so many, that reduce so many bytes of this device's memory (proto/format/local_reduction.h).
int local_blocks(uint64_t bytes, int most) noexcept;
// What `most` is for a communicator's launches.
int most_local_blocks(const CommShape& shape) noexcept;

struct CopyReductions {
  // Where so many steps have been launched, `from` holds it. In the order in which they go.
  struct Send {
    uint64_t round;
    int peer;
    const uint8_t* from;
    uint64_t bytes;
    uint32_t after;
  };
  // Waits for what these ranks send in a round, and for this rank's own sends where it overwrites what they have sent
  // from; its kernel may be missing. With the last one of a round, its places are free.
  struct Step {
    uint64_t round;
    std::vector<int> sources;
    bool last = true, waits_for_sends = false;
    // Its launch, which takes much more room.
    const gpu::Kernel* kernel = nullptr;
    int blocks = 0;
    proto::LocalReduction reduction = {};
  };
  std::vector<Send> sends;
  std::vector<Step> steps;
  int n_ranks = 0;
  uint64_t first_round = 0, rounds = 0;  // of this group
  uint64_t places = 1, place_bytes = 0;  // of what comes from each rank

  // How many of the sends may be put on their stream before a step, or behind the last one: there is room for them once
  // all ranks have done all rounds before that step's. So they never wait for what this rank has not put yet.
  size_t sends_before(uint32_t step) const;
  // Of how many rounds a rank must have used what came before there is room for a round's pieces.
  uint64_t used_before(uint64_t round) const {
    return first_round + (round - first_round < places ? 0 : round - first_round - places + 1);
  }
  // Where in the landing memory of rank `at` lies what comes from rank `from` in a round.
  uint64_t landing_offset(uint64_t round, int at, int from) const { return offset(round, from - (from > at)); }
  // Of more than two ranks, behind that: the result of the operands of a round, where its rank does not keep it.
  uint64_t result_offset(uint64_t round) const { return offset(round, n_ranks - 1); }

 private:
  uint64_t offset(uint64_t round, int index) const;
};
// Of those of the queue's collectives that go this way, one after the other. first_round: how many there were before;
// landing: kernel address.
bool any_copy_reduction(const TaskQueue& queue, const CommShape& shape);
CopyReductions plan_copy_reductions(const TaskQueue& queue, int rank, const CommShape& shape, uint8_t* landing,
                                    uint64_t first_round);
void plan_launch(const CopyReductions::Step& step, const CommShape& shape, bool results_on_host, PlannedLaunch* launch);

}  // namespace gpucoll::core
