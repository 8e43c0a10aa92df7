// Sends and receives of one channel: the items of a batch side by side, each side of an item by warps of its own.
//
// An item that sends and receives has two sides, one that does only one of it, or goes to this rank itself, one. The
// block is cut into as many groups of warps as there are sides in this channel; a message of fewer parts than channels
// is not in all of them.
//
// Thread safety: called by all threads of the block that works for the channel. Moves bytes.
// REQUIRES: two warps a block for each item of the batch.
#pragma once
#include "kernels/send_recv_line.h"
#include "kernels/split.h"
#include "proto/format/plan.h"
#include "proto/pairs.h"
#include "proto/primitives.h"
#include "proto/primitives_ll.h"

namespace gpucoll::coll::device {

// Items of a batch, one after another in fast memory.
struct Items {
  const proto::WorkItem* first;
  uint32_t n;

  template <class Body>
  GC_DEV void each(const Body& body) const {
    GC_NO_UNROLL
    for (uint32_t i = 0; i < n; ++i) body(first[i]);
  }
};

enum class Side : uint8_t { send, receive, self };

// One item in one channel.
struct PairWork {
  const proto::ChannelComm& comm;
  const proto::SendRecvItem& item;
  uint32_t channel, part;

  GC_DEV PairWork(const proto::ChannelComm& c, const proto::SendRecvItem& i, uint32_t ch)
      : comm(c), item(i), channel(ch), part(proto::pair_part(i.distance, ch, c.n_pair_channels)) {}

  GC_DEV bool sends() const { return item.send_peer >= 0 && part < item.send_parts; }
  GC_DEV bool receives() const { return item.distance != 0 && item.recv_peer >= 0 && part < item.recv_parts; }
  GC_DEV uint32_t sides() const { return static_cast<uint32_t>(sends()) + static_cast<uint32_t>(receives()); }
  // REQUIRES: side < sides().
  GC_DEV Side side(uint32_t index) const {
    if (item.distance == 0) return Side::self;
    return sends() && index == 0 ? Side::send : Side::receive;
  }

  GC_DEV proto::Connector* end(proto::Connector* const* ends, int32_t peer) const {
    return &ends[proto::kPairLinks][peer];
  }
};

template <class Protocol, class Coop>
using PairPrimitives = proto::Primitives<proto::Bytes, Coop, Protocol, proto::Fan<1, 1>>;

template <class Protocol, class Coop>
GC_NOINLINE void send_part(Coop coop, const PairWork& work) {
  const proto::SendRecvItem& item = work.item;
  PairPrimitives<Protocol, Coop> prims(coop, {{nullptr}, {work.end(work.comm.send, item.send_peer)}},
                                       work.comm.shape[proto::kPairLinks], work.comm.latch, {item.send, nullptr}, {});
  const Range part = pair_range(item.send_bytes, item.send_parts, work.part);
  prims.direct_send_message(part.first, part.first, part.count, item.send_bytes);
}
template <class Protocol, class Coop>
GC_NOINLINE void receive_part(Coop coop, const PairWork& work) {
  const proto::SendRecvItem& item = work.item;
  PairPrimitives<Protocol, Coop> prims(
      coop, {{work.end(work.comm.recv, item.recv_peer)}, {nullptr}}, work.comm.shape[proto::kPairLinks],
      work.comm.latch, {nullptr, item.recv, Protocol::kDirect ? item.granted : nullptr, item.recv_bytes}, {});
  const Range part = pair_range(item.recv_bytes, item.recv_parts, work.part);
  prims.direct_recv_message(part.first, part.count, item.recv_bytes, item.recv_peer);
}
// Over LL, what is short goes straight; the primitives would do the same.
template <class Coop>
GC_NOINLINE void send_ll(Coop coop, const PairWork& work) {
  const proto::SendRecvItem& item = work.item;
  const Range part = pair_range(item.send_bytes, item.send_parts, work.part);
  const proto::ConnectionShape& shape = work.comm.shape[proto::kPairLinks];
  if (!is_short(part.count, shape)) return send_part<proto::Ll>(coop, work);
  ShortMessage message(*work.end(work.comm.send, item.send_peer), shape, work.comm.latch, part.count,
                       {item.send_bytes, -1});
  message.send(coop, static_cast<const uint8_t*>(item.send) + part.first);
}
template <class Coop>
GC_NOINLINE void receive_ll(Coop coop, const PairWork& work) {
  const proto::SendRecvItem& item = work.item;
  const Range part = pair_range(item.recv_bytes, item.recv_parts, work.part);
  const proto::ConnectionShape& shape = work.comm.shape[proto::kPairLinks];
  if (!is_short(part.count, shape)) return receive_part<proto::Ll>(coop, work);
  ShortMessage message(*work.end(work.comm.recv, item.recv_peer), shape, work.comm.latch, part.count,
                       {item.recv_bytes, item.recv_peer});
  message.receive(coop, static_cast<uint8_t*>(item.recv) + part.first);
}
template <class Coop>
GC_DEV void copy_part(const Coop& coop, const PairWork& work) {
  const proto::SendRecvItem& item = work.item;
  const Range part = pair_range(item.send_bytes, item.send_parts, work.part);
  proto::Operands operands{};
  operands.from[operands.n_from++] = static_cast<const uint8_t*>(item.send) + part.first;
  operands.to[operands.n_to++] = static_cast<uint8_t*>(item.recv) + part.first;
  proto::reduce_copy<proto::Bytes>(coop, operands, part.count, {});
}

template <class Coop>
GC_DEV void run_side(const Coop& coop, const PairWork& work, Side side) {
  using proto::Protocol;
  if (side == Side::self) return copy_part(coop, work);
  if (side == Side::send) {
    if (work.item.send_protocol == Protocol::ll) return send_ll(coop, work);
    if ((work.item.direct & proto::kLooksForGrants) != 0) return send_part<proto::DirectSimple>(coop, work);
    return send_part<proto::Simple<>>(coop, work);
  }
  if (work.item.recv_protocol == Protocol::ll) return receive_ll(coop, work);
  if ((work.item.direct & proto::kGrants) != 0) return receive_part<proto::DirectSimple>(coop, work);
  return receive_part<proto::Simple<>>(coop, work);
}

template <class Block>
GC_NOINLINE void send_recv(Block block, const proto::ChannelComm& comm, uint32_t channel, Items items) {
  uint32_t sides = 0;
  items.each([&](const proto::WorkItem& item) { sides += PairWork(comm, item.pair, channel).sides(); });
  if (sides == 0) return;
  const auto group = block.split(static_cast<int>(sides));
  uint32_t own = static_cast<uint32_t>(group.group());  // of the sides that are left
  items.each([&](const proto::WorkItem& item) {
    const PairWork work(comm, item.pair, channel);
    if (own < work.sides()) run_side(group, work, work.side(own));
    own -= work.sides();  // wraps round behind this thread's own: no side is that one
  });
}

}  // namespace gpucoll::coll::device
