#include "core/direct_path.h"

namespace gpucoll::core {

using proto::kCollectiveLinks;
using proto::kGrants;
using proto::kLooksForGrants;
using proto::kPairLinks;

bool DirectPath::reaches(proto::LinkKind kind, int peer, net::Side side) const {
  const Peers& peers = context_.peers;
  return peers.info(peer).pid == peers.info(peers.rank()).pid && context_.links.over_p2p({kind, peer, side});
}

uint8_t* DirectPath::address_for(proto::LinkKind kind, int peer, void* output) const {
  if (!output || !reaches(kind, peer, net::Side::receive)) return nullptr;
  const gpu::PointerInfo info = context_.device.classify_kernel(output);
  // What other processes may open is what other devices of this one are let into.
  return info.exportable && info.device == context_.device.index() ? static_cast<uint8_t*>(output) : nullptr;
}

// Every channel's ring has the same neighbours (device_tables.cpp).
void DirectPath::mark(proto::CollectiveItem& item, uint64_t output_bytes) {
  const int n = context_.peers.size(), rank = context_.peers.rank();
  if (n == 1 || output_bytes < context_.least_bytes) return;
  if (reaches(kCollectiveLinks, (rank + 1) % n, net::Side::send)) item.direct |= kLooksForGrants;
  if (uint8_t* const granted = address_for(kCollectiveLinks, (rank + n - 1) % n, item.recv)) {
    item.direct |= kGrants;
    item.granted = granted;
  }
}

void DirectPath::mark(proto::PairItem& item) {
  const int rank = context_.peers.rank();
  const auto worth = [&](int peer, uint64_t bytes, proto::Protocol protocol) {
    return peer >= 0 && peer != rank && bytes >= context_.least_bytes && protocol == proto::Protocol::simple;
  };
  if (worth(item.send_peer, item.send_bytes, item.send_protocol) &&
      reaches(kPairLinks, item.send_peer, net::Side::send))
    item.direct |= kLooksForGrants;
  if (!worth(item.recv_peer, item.recv_bytes, item.recv_protocol)) return;
  item.granted = address_for(kPairLinks, item.recv_peer, item.recv);
  if (item.granted) item.direct |= kGrants;
}

}  // namespace gpucoll::core
