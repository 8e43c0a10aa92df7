// Which connections the tasks of a queue need: asked before any plan is made.
//
// A pure function. What it says of collectives follows from facts that are equal on all ranks.
#pragma once
#include <vector>

#include "core/plan/task.h"
#include "core/plan/tuner.h"

namespace gpucoll::core {

struct Requirements {
  bool ring = false, chain = false, tree = false, mesh = false, line_mesh = false;  // chain: in the order of ranks
  bool reduces_in_ring = false;                                                     // in the order of the ring
  bool copy_reductions = false;                                                     // with all peers in the lists below
  int channels = 0;                        // rings and trees: their plans stay below this one
  std::vector<int> send_to, receive_from;  // peers of send and receive, without this rank itself, in ascending order

  void add(const Requirements& more);
};
Requirements required_by(const TaskQueue& queue, int rank, const CommProperties& shape);

}  // namespace gpucoll::core
