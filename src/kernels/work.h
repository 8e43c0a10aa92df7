// The data that an algorithm works on: one item of a batch, as the block of one channel sees it.
//
// Thread safety: plain data, the same on all threads of the block, and handed on by value: registers. Ownership: none;
// comm and item are what the block's threads share (run_plan.h), and outlive it.
#pragma once
#include "kernels/split.h"
#include "proto/format/plan.h"
#include "proto/primitives.h"

namespace gpucoll::coll::device {

// A scalar in device memory is read here.
template <class T>
GC_DEV proto::Reduction reduction_of(const proto::CollectiveItem& item, uint8_t op) {
  if (item.scalar_in_memory == 0) return {op, item.argument, item.argument_high};
  uint64_t words[2] = {};
  const T scalar = proto::load_unaligned<T>(reinterpret_cast<const uint8_t*>(item.argument));
  __builtin_memcpy(words, &scalar, sizeof scalar);
  return {op, words[0], words[1]};
}

struct Work {
  proto::ChannelComm& comm;
  const proto::CollectiveItem& item;
  uint32_t channel;
  uint8_t op;  // of the family

  GC_DEV proto::Buffers buffers() const { return {item.send, item.recv}; }
  GC_DEV const proto::ConnectionShape& shape() const { return comm.shape[proto::kCollectiveLinks]; }
  GC_DEV bool is_rank(uint32_t rank) const { return static_cast<uint32_t>(comm.rank) == rank; }

  // This channel's part of the item's elements. Functions that only move data count bytes.
  template <class Family>
  GC_DEV Range share() const {
    constexpr uint32_t kBytes = sizeof(typename Family::Element);
    return channel_range(item.count, kBytes, item.n_channels, channel - item.first_channel);
  }
  template <class Family>
  GC_DEV proto::Reduction reduction() const {
    if constexpr (Family::kOps == 0) return {};
    if constexpr (Family::kOps != 0) return reduction_of<typename Family::Element>(item, op);
  }

  // This rank's ends of the links of this channel; null where there is no such rank.
  GC_DEV proto::Connector* send_to(int32_t rank) const {
    return end(comm.send[proto::kCollectiveLinks], comm.ring_send, comm.ring_next, rank);
  }
  GC_DEV proto::Connector* recv_from(int32_t rank) const {
    return end(comm.recv[proto::kCollectiveLinks], comm.ring_recv, comm.ring_prev, rank);
  }

 private:
  static GC_DEV proto::Connector* end(proto::Connector* ends, proto::Connector& ring_end, int32_t neighbour,
                                      int32_t rank) {
    if (rank < 0) return nullptr;
    return rank == neighbour ? &ring_end : ends + rank;
  }
};

// Most elements of one operation: what keeps the pipeline flowing, or less where the item says so. Whole lines, so that
// round_chunk stays below it.
template <class Prims>
GC_DEV uint64_t most_elements(const Work& work) {
  constexpr uint64_t kPack = 16, kLine = 128, kBytes = sizeof(typename Prims::Element);
  uint64_t most = Prims::chunk_elements(work.shape()) * kBytes;
  if (work.item.chunk_bytes >= kLine && work.item.chunk_bytes < most) most = work.item.chunk_bytes;
  return most / (most >= kLine ? kLine : kPack) * (most >= kLine ? kLine : kPack) / kBytes;
}

// Returns the elements where one chunk after another goes through `hops` moves.
template <class Prims>
GC_DEV uint64_t pipeline_elements(const Work& work, Range share, uint32_t hops) {
  constexpr uint64_t kBytes = sizeof(typename Prims::Element);
  const uint64_t most = most_elements<Prims>(work);
  if (work.item.chunk_bytes != 0) return most;
  return pipeline_chunk(share.count * kBytes, hops, most * kBytes) / kBytes;
}

// body(first element, number of elements) for each chunk of the share, while all is well.
template <class Prims, class Body>
GC_DEV void each_chunk(const Prims& prims, Range share, uint64_t chunk, const Body& body) {
  for (uint64_t done = 0; done < share.count && prims.ok(); done += chunk) {
    const uint64_t left = share.count - done;
    body(share.first + done, left < chunk ? left : chunk);
  }
}

}  // namespace gpucoll::coll::device
