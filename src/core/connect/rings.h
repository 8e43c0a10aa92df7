// The rings of a communicator: in what order the ranks follow each other on a channel. Pure functions; the same answers
// on every rank.
#pragma once
#include <vector>

#include "core/connect/nodes.h"

namespace gpucoll::core {

// Returns the ranks of a channel's ring by their places. On one node these are in ascending order. A ring enters each
// node once. It leaves it by another rank, where the node has several, and enters the next one by the rank that has the
// same place there; from channel to channel these ranks move on by one. So channels use the NICs of a node evenly, and
// a link joins NICs of equal place: a rail.
std::vector<int> ring_ranks(const Nodes& nodes, int channel);

struct RingPlace {
  int index, next, prev;  // next, prev: ranks
};
RingPlace ring_place(const Nodes& nodes, int rank, int channel);

}  // namespace gpucoll::core
