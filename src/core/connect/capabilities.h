// Tells what a communicator can do before it makes any connection: that follows from parameters, devices, ranks and
// nodes alone, and is equal on all ranks.
#pragma once
#include "core/connect/nodes.h"
#include "core/peer/peers.h"
#include "core/plan/tuner.h"
#include "gpu/device.h"
#include "proto/format/connection.h"

namespace gpucoll::core {

struct Capabilities {
  CommProperties properties;  // of operations outside of captures; the parameters algorithm and protocol are not set
  CopyEngineLimits copies;    // of what goes by copy engine where a link turns out to be over P2P; 0: nothing does
  int pair_lanes = 1;         // between two ranks, of send and receive
  proto::ConnectionShape slots[proto::kLinkKinds] = {};
};

// table: a tuning file's; null: none.
Capabilities capabilities_of(const gpu::Device& device, const Peers& peers, const Nodes& nodes,
                             const TuningTable* table, const CommOptions& options);
// Returns whether some links go over a network.
bool goes_over_network(const Peers& peers);
// Returns whether all links go over P2P, as far as the facts say: a link may still turn out to be another.
bool goes_over_p2p(const Peers& peers);

}  // namespace gpucoll::core
