// The trees of a communicator: a binary tree over all ranks for each channel, for reductions upwards and broadcasts
// downwards. Pure functions; the same answers on every rank.
#pragma once
#include "core/connect/nodes.h"
#include "proto/format/plan.h"

namespace gpucoll::core {

// Returns a rank's place in the tree of a channel. On one node the tree has a depth of about log2 of the ranks, and
// even ranks are leaves; on odd channels the ranks take each other's places, so that odd ranks are: two channels
// together use every rank's links evenly. On several nodes there is such a tree of the nodes, and one of the ranks
// inside each, so each node but the root's has one link upwards. The ranks with links to other nodes move on by one
// from channel to channel.
proto::TreePlace tree_place(const Nodes& nodes, int rank, int channel);

}  // namespace gpucoll::core
