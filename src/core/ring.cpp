#include "core/ring.h"

#include <cstdio>
#include <cstring>
#include <vector>

#include "base/log.h"

namespace gpucoll::core {
namespace {

// What a rank tells in one round: its two ends, and what went wrong with them.
struct RoundMessage {
  net::LinkBlob to_next, from_previous;
  uint32_t to_next_code, from_previous_code;
  char text[120];
};

void note(RoundMessage* message, uint32_t RoundMessage::*field, const Status& status) {
  if (status) return;
  message->*field = static_cast<uint32_t>(status.code());
  std::snprintf(message->text, sizeof message->text, "%s", status.what());
}

// One attempt to connect the links that are still missing, over one transport.
class Round {
 public:
  Round(net::Bootstrap& bootstrap, net::MemoryPort& memory, const RingRequest& request, Ring& ring)
      : bootstrap_(bootstrap), memory_(memory), request_(request), ring_(ring) {}

  // Afterwards the links whose both ends work are kept in the ring; the others are gone on both sides.
  // True if every link of the whole ring is there.
  Result<bool> run(net::Transport& transport, bool may) {
    bool need_next = !ring_.to_next, need_previous = !ring_.from_previous;
    RoundMessage mine = {};
    if (need_next) note(&mine, &RoundMessage::to_next_code, make(transport, may, net::Side::send, &mine));
    if (need_previous) note(&mine, &RoundMessage::from_previous_code, make(transport, may, net::Side::receive, &mine));
    GC_TRY(share(mine));
    const RoundMessage& next = all_[static_cast<size_t>(ring_.next)];
    const RoundMessage& previous = all_[static_cast<size_t>(ring_.previous)];
    if (need_next && !mine.to_next_code && !next.from_previous_code)
      note(&mine, &RoundMessage::to_next_code, contained([&] { return ring_.to_next->connect(next.from_previous); }));
    if (need_previous && !mine.from_previous_code && !previous.to_next_code)
      note(&mine, &RoundMessage::from_previous_code,
           contained([&] { return ring_.from_previous->connect(previous.to_next); }));
    GC_TRY(share(mine));
    bool next_ok = !mine.to_next_code && !all_[static_cast<size_t>(ring_.next)].from_previous_code;
    bool previous_ok = !mine.from_previous_code && !all_[static_cast<size_t>(ring_.previous)].to_next_code;
    if (need_next && !next_ok) ring_.to_next.reset();
    if (need_next && next_ok) ring_.to_next_transport = transport.name();
    if (need_previous && !previous_ok) ring_.from_previous.reset();
    for (const RoundMessage& m : all_)
      if (m.to_next_code || m.from_previous_code) return false;
    return true;
  }

  // Why the last round was not whole: the first rank's sentence.
  Status failure(const Peers& peers) const {
    for (size_t r = 0; r < all_.size(); ++r) {
      uint32_t code = all_[r].to_next_code ? all_[r].to_next_code : all_[r].from_previous_code;
      if (code)
        return Status::error(static_cast<Code>(code), "%s cannot connect to its neighbours in the ring: %s",
                             peers.name(static_cast<int>(r)).c_str(), all_[r].text);
    }
    return Status::error(Code::internal, "no failure among the ring's links");
  }

 private:
  Status make(net::Transport& transport, bool may, net::Side side, RoundMessage* mine) {
    if (!may) return Status::error(Code::unsupported, "the devices cannot reach each other's memory (no peer access)");
    auto end = contained([&] { return transport.make_end(side, request_.shape, memory_); });
    if (!end) return std::move(end).status();
    bool sending = side == net::Side::send;
    (sending ? mine->to_next : mine->from_previous) = (*end)->blob();
    (sending ? ring_.to_next : ring_.from_previous) = *std::move(end);
    return {};
  }

  Status share(const RoundMessage& mine) {
    all_.resize(static_cast<size_t>(bootstrap_.size()));
    return bootstrap_.allgather(&mine, all_.data(), sizeof mine);
  }

  net::Bootstrap& bootstrap_;
  net::MemoryPort& memory_;
  const RingRequest& request_;
  Ring& ring_;
  std::vector<RoundMessage> all_;
};

gpu::Identity identity_of(const proto::PeerInfo& info) {
  gpu::Identity identity = {};
  std::memcpy(identity.kind, info.device_kind, sizeof identity.kind);
  std::memcpy(identity.uuid, info.device_uuid, sizeof identity.uuid);
  return identity;
}

}  // namespace

Result<Ring> connect_ring(net::Bootstrap& bootstrap, const Peers& peers, net::MemoryPort& memory,
                          const gpu::Device& device, const RingRequest& request) {
  int n = peers.size(), rank = peers.rank();
  Ring ring = {(rank + 1) % n, (rank + n - 1) % n, nullptr, nullptr, "none"};
  Round round(bootstrap, memory, request, ring);
  bool whole = false;
  if (!request.force_shm) {
    bool reach = device.can_reach(identity_of(peers.info(ring.next))) &&
                 device.can_reach(identity_of(peers.info(ring.previous)));
    GC_TRY_AS(whole, round.run(net::p2p_transport(), reach));
    if (!whole && request.force_p2p) return round.failure(peers);
    if (!whole) log::write(log::Level::info, "not all links work over p2p: %s", round.failure(peers).what());
  }
  if (!whole) {
    GC_TRY_AS(whole, round.run(net::shm_transport(), true));
  }
  if (!whole) return round.failure(peers);
  return ring;
}

}  // namespace gpucoll::core
