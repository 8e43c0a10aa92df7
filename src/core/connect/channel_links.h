// Which links of a communicator go to which channels: those for rings, chains and trees, channel by channel as
// operations need them, and those for send and receive. It says what an operation still needs, has Links make that, and
// enters the new lanes where kernels look for them.
//
// Thread safety: one caller at a time. Ownership: borrows nodes, links and tables. Invariant: both ends of a link give
// its lanes to the same channels in the same order, as all ranks connect for the same operations.
#pragma once
#include <map>
#include <set>
#include <vector>

#include "core/connect/device_tables.h"
#include "core/connect/links.h"
#include "core/connect/nodes.h"
#include "core/connect/requirements.h"

namespace gpucoll::core {

// The collective links that an operation needs and that are not all there, on the first `channels` channels.
struct ChannelNeeds {
  bool ring, chain, tree;
  int channels;
  bool any() const { return ring || chain || tree; }
};

class ChannelLinks {
 public:
  struct Limits {
    int channels, pair_channels, pair_lanes;  // equal on all ranks
  };
  ChannelLinks(const Nodes& nodes, int rank, Links& links, const Limits& limits)
      : nodes_(nodes), rank_(rank), links_(links), limits_(limits) {}

  // replaces: something that the operation requires cannot be made, so whatever else may carry it is needed.
  ChannelNeeds needs(const Requirements& required, bool replaces) const noexcept;
  // Returns whether the links for the operation's messages are there.
  bool has_pairs(const Requirements& required) const noexcept;
  // Makes the links that are missing. After a success of all ranks, keep() counts the channels as connected.
  Status make(const Requirements& required, const ChannelNeeds& needs, DeviceTables& tables, PeerWait& wait);
  void keep(const ChannelNeeds& needs) noexcept;

 private:
  int size() const { return nodes_.n_ranks(); }
  int wanted_channels(const Requirements& required, bool replaces) const noexcept;
  std::set<LinkName> on_channel(const ChannelNeeds& needs, int channel) const;
  std::vector<LinkWish> missing(const Requirements& required, const ChannelNeeds& needs) const;
  void place(const LinkWish& wish, int first_lane, std::vector<PlacedConnector>* placed);

  const Nodes& nodes_;
  const int rank_;
  Links& links_;
  const Limits limits_;
  int ring_channels_ = 0, chain_channels_ = 0, tree_channels_ = 0;  // how many are connected
  std::map<LinkName, std::vector<int>> lane_channels_;              // of collectives: to which channel a lane goes
};

}  // namespace gpucoll::core
