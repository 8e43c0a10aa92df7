#include "core/connect/channel_links.h"

#include <algorithm>
#include <bit>

#include "core/connect/rings.h"
#include "core/connect/trees.h"
#include "proto/pairs.h"

namespace gpucoll::core {
namespace {

using net::Side;
using proto::kCollectiveLinks;
using proto::kPairLinks;

constexpr Side kSides[] = {Side::send, Side::receive};

}  // namespace

// Channels are connected as they are used: a communicator for small operations needs few of many.
int ChannelLinks::wanted_channels(const Requirements& required, bool replaces) const noexcept {
  constexpr unsigned kLeast = 4;
  // Nobody has asked for what replaces something else: all.
  if (replaces) return limits_.channels;
  return std::min(static_cast<int>(std::bit_ceil(std::max(static_cast<unsigned>(required.channels), kLeast))),
                  limits_.channels);
}

// Where all rings go in the order of ranks, they are chains too.
ChannelNeeds ChannelLinks::needs(const Requirements& required, bool replaces) const noexcept {
  const int channels = wanted_channels(required, replaces);
  const bool differ = nodes_.rings_differ(), ring = required.ring || (required.chain && !differ);
  return {ring_channels_ < channels && (ring || replaces),
          differ && chain_channels_ < channels && (required.chain || replaces),
          tree_channels_ < channels && (required.tree || replaces), channels};
}

bool ChannelLinks::has_pairs(const Requirements& required) const noexcept {
  const auto has = [&](Side side) {
    return [=, this](int peer) { return links_.lanes({kPairLinks, peer, side}) > 0; };
  };
  return std::all_of(required.send_to.begin(), required.send_to.end(), has(Side::send)) &&
         std::all_of(required.receive_from.begin(), required.receive_from.end(), has(Side::receive));
}

Status ChannelLinks::make(const Requirements& required, const ChannelNeeds& needs, DeviceTables& tables,
                          PeerWait& wait) {
  const std::vector<LinkWish> wishes = missing(required, needs);
  std::vector<int> before;
  for (const LinkWish& wish : wishes) before.push_back(links_.lanes(wish.name));
  GC_TRY(links_.make(wishes, wait));
  std::vector<PlacedConnector> placed;
  for (size_t i = 0; i < wishes.size(); ++i) place(wishes[i], before[i], &placed);
  return tables.add(std::move(placed));
}

void ChannelLinks::keep(const ChannelNeeds& needs) noexcept {
  if (needs.ring) ring_channels_ = needs.channels;
  if (needs.chain) chain_channels_ = needs.channels;
  if (needs.tree) tree_channels_ = needs.channels;
}

// Returns the links of rings, the chain and trees on a channel that are needed and not there yet.
std::set<LinkName> ChannelLinks::on_channel(const ChannelNeeds& needs, int channel) const {
  std::set<LinkName> names;
  const auto want = [&](int peer, Side side) {
    if (peer >= 0 && peer < size()) names.insert({kCollectiveLinks, peer, side});
  };
  if (needs.ring) {
    const RingPlace place = ring_place(nodes_, rank_, channel);
    want(place.next, Side::send);
    want(place.prev, Side::receive);
  }
  if (needs.chain) {
    want(rank_ + 1, Side::send);
    want(rank_ - 1, Side::receive);
  }
  if (needs.tree) {
    const proto::TreePlace place = tree_place(nodes_, rank_, channel);
    for (const int peer : {place.parent, place.child[0], place.child[1]})
      for (const Side side : kSides) want(peer, side);
  }
  return names;
}

std::vector<LinkWish> ChannelLinks::missing(const Requirements& required, const ChannelNeeds& needs) const {
  std::map<LinkName, LinkWish> for_collectives;
  for (int channel = 0; channel < needs.channels; ++channel) {
    for (const LinkName& name : on_channel(needs, channel)) {
      const auto there = lane_channels_.find(name);
      if (there != lane_channels_.end() && std::count(there->second.begin(), there->second.end(), channel)) continue;
      LinkWish& wish = for_collectives.try_emplace(name, LinkWish{name, links_.lanes(name), {}}).first->second;
      wish.channels.push_back(channel);
      ++wish.lanes;
    }
  }
  std::vector<LinkWish> wishes;
  for (auto& [name, wish] : for_collectives) wishes.push_back(std::move(wish));
  const auto want = [&](int peer, Side side) {
    const LinkName name = {kPairLinks, peer, side};
    if (links_.lanes(name) < limits_.pair_lanes) wishes.push_back({name, limits_.pair_lanes, {}});
  };
  for (const int peer : required.send_to) want(peer, Side::send);
  for (const int peer : required.receive_from) want(peer, Side::receive);
  return wishes;
}

// Says where kernels look for a link's lanes.
void ChannelLinks::place(const LinkWish& wish, int first_lane, std::vector<PlacedConnector>* placed) {
  const LinkName& name = wish.name;
  const int hops = name.side == Side::send ? name.peer - rank_ : rank_ - name.peer;
  const auto distance = static_cast<uint32_t>((hops + size()) % size());
  const auto n_pair_channels = static_cast<uint32_t>(limits_.pair_channels);
  std::vector<int>& channels = lane_channels_[name];
  channels.insert(channels.end(), wish.channels.begin(), wish.channels.end());
  for (int lane = first_lane; lane < links_.lanes(name); ++lane) {
    const uint32_t part = static_cast<uint32_t>(lane);
    const int channel = name.kind == kCollectiveLinks
                            ? channels[part]
                            : static_cast<int>(proto::pair_channel(distance, part, n_pair_channels));
    placed->push_back({name.kind, name.side, channel, name.peer, links_.connector(name, lane)});
  }
}

}  // namespace gpucoll::core
