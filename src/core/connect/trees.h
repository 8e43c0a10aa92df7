// The trees of a communicator: a binary tree over all ranks for each channel, for reductions upwards and broadcasts
// downwards. Pure functions; the same answers on every rank.
#pragma once
#include <vector>

#include "proto/format/plan.h"

namespace gpucoll::core {

// A tree of depth about log2(n_ranks) in which even ranks are leaves; on odd channels the ranks take each other's
// places, so that odd ranks are: two channels together use every rank's links evenly.
proto::TreePlace tree_place(int n_ranks, int rank, int channel);

// The ranks beside this one in the trees of all channels, in ascending order.
std::vector<int> tree_neighbours(int n_ranks, int rank, int n_channels);

}  // namespace gpucoll::core
