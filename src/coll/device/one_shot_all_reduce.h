// One-shot allreduce of one channel: every rank stores its whole share into the memory of every other, and reduces what
// it receives. One hop instead of a ring's 2 (n - 1): for messages whose latency is what they cost.
//
// result = op(... op(x[0], x[1]) ..., x[n - 1]), in the order of the ranks on every rank: all have the same bits.
//
// Thread safety: called by all threads of the one group that works for the channel, which meet at a barrier between
// two operations (format/mesh.h says why; run_one_shots does it). Ownership: none. No barrier inside: each pack is one
// thread's from the load of the own elements to the store of the result, so that send and recv may be equal.
#pragma once
#include "coll/device/work.h"
#include "proto/ll.h"
#include "proto/packs.h"

namespace gpucoll::coll::device {

template <class Red>
class OneShot {
 public:
  // The channel's share is at most kMeshChannelData bytes, and empty for channels that are not the item's.
  // REQUIRES: channel < kMeshChannels, n_ranks <= kMeshMaxRanks.
  GC_DEV OneShot(const proto::ChannelComm& comm, uint32_t channel, const proto::CollectiveItem& item)
      : OneShot(comm, channel, item, share_of(item, channel)) {}

  // What this thread will send first: may be read before anything else is there.
  static GC_DEV proto::Pack read_first(const proto::CollectiveItem& item, uint32_t channel, uint32_t thread) {
    const Range share = share_of(item, channel);
    if (uint64_t{thread} * kPer >= share.count) return {};
    const uint8_t* const input = static_cast<const uint8_t*>(item.send) + share.first * sizeof(T);
    return read(input, static_cast<uint32_t>(share.count), thread);
  }
  // False once the fault latch has ended a wait of this thread. early: what read_first() said, or null.
  template <class Coop>
  GC_DEV bool run(const Coop& coop, const proto::Pack* early) const {
    const uint32_t first = static_cast<uint32_t>(coop.rank()), step = static_cast<uint32_t>(coop.size());
    // An empty share is a pack of nothing: peers may use this half of the mesh again once they have received it.
    const uint32_t packs = count_ == 0 ? 1 : (count_ + kPer - 1) / kPer;
    for (uint32_t p = first; p < packs; p += step) {
      const proto::Pack own = early != nullptr && p == first ? *early : read(input_, count_, p);
      send_to_all(p, Unit::pre(own, reduction_));
    }
    for (uint32_t p = first; p < packs; p += step) {
      proto::Pack result;
      if (!reduce(p, Unit::pre(read(input_, count_, p), reduction_), result)) return false;
      proto::write_pack<T>(output_ + p * sizeof(proto::Pack), result, elements(count_, p));
    }
    return true;
  }

  GC_DEV bool has_share() const { return count_ != 0; }

 private:
  using T = typename Red::Element;
  using Unit = proto::PackUnit<Red>;
  static constexpr uint32_t kPer = proto::kPerPack<T>;
  // Ranks whose memory is on its way at the same time.
  static constexpr uint32_t kBatch = 8;

  GC_DEV OneShot(const proto::ChannelComm& comm, uint32_t channel, const proto::CollectiveItem& item, Range share)
      : n_(static_cast<uint32_t>(comm.n_ranks)),
        rank_(static_cast<uint32_t>(comm.rank)),
        flag_(item.flag),
        latch_(comm.latch),
        mesh_(comm.mesh),
        to_(lines_of(channel, rank_)),
        received_(comm.mesh[rank_] + lines_of(channel, 0)),
        input_(static_cast<const uint8_t*>(item.send) + share.first * sizeof(T)),
        output_(static_cast<uint8_t*>(item.recv) + share.first * sizeof(T)),
        count_(static_cast<uint32_t>(share.count)),
        reduction_(reduction_of<T>(item, 0)) {}

  static GC_DEV Range share_of(const proto::CollectiveItem& item, uint32_t channel) {
    const uint32_t index = channel - item.first_channel;
    if (index >= item.n_channels) return {0, 0};
    return channel_range(item.count, sizeof(T), item.n_channels, index);
  }
  GC_DEV size_t lines_of(uint32_t channel, uint32_t source) const {
#if GC_MUTANT == 4  // one half for all operations
    return proto::mesh_offset(static_cast<int>(n_), static_cast<int>(channel), 0, static_cast<int>(source));
#else
    return proto::mesh_offset(static_cast<int>(n_), static_cast<int>(channel), flag_, static_cast<int>(source));
#endif
  }
  static GC_DEV uint32_t elements(uint32_t count, uint32_t pack) {
    const uint32_t left = count - pack * kPer;
    return left < kPer ? left : kPer;
  }
  static GC_DEV proto::Pack read(const uint8_t* input, uint32_t count, uint32_t pack) {
    return proto::read_pack<T>(input + pack * sizeof(proto::Pack), elements(count, pack));
  }

  // The next rank first, so that not all store to one.
  GC_DEV void send_to_all(uint32_t index, const proto::Pack& pack) const {
    for (uint32_t base = 1; base < n_; base += kBatch) {
      uint8_t* peer[kBatch];
      GC_UNROLL
      for (uint32_t k = 0; k < kBatch; ++k) {
        const uint32_t r = rank_ + base + k;
        if (base + k < n_) peer[k] = mesh_[r < n_ ? r : r - n_];
      }
      GC_UNROLL
      for (uint32_t k = 0; k < kBatch; ++k) {
        if (base + k < n_) proto::ll_store(peer[k] + to_, index, pack, flag_);
      }
    }
  }

  GC_DEV bool reduce(uint32_t index, const proto::Pack& own, proto::Pack& result) const {
    for (uint32_t base = 0; base < n_; base += kBatch) {
      proto::LlPack in[kBatch];
      if (!receive(index, base, in)) return false;
      GC_UNROLL
      for (uint32_t k = 0; k < kBatch; ++k) {
        const uint32_t r = base + k;
        if (r >= n_) break;
        const proto::Pack x = r == rank_ ? own : in[k].data();
        result = r == 0 ? x : Unit::apply(result, x);
      }
    }
    result = Unit::post(result, reduction_);
    return true;
  }

  // One pack from each rank of a batch: all loads of a turn come before the first look at what they brought.
  GC_DEV bool receive(uint32_t index, uint32_t base, proto::LlPack (&in)[kBatch]) const {
    for (uint32_t turn = 1;; ++turn) {
      GC_UNROLL
      for (uint32_t k = 0; k < kBatch; ++k) {
        if (awaited(base + k)) in[k] = proto::ll_load(received_ + (base + k) * kSourceBytes, index);
      }
      bool all = true;
      GC_UNROLL
      for (uint32_t k = 0; k < kBatch; ++k) all &= !awaited(base + k) || in[k].arrived(flag_);
      if (all) return true;
      if (turn % proto::kLatchPeriod == 0 && proto::load_relaxed(&latch_->abort) != 0) return false;
      proto::pause();
    }
  }
  GC_DEV bool awaited(uint32_t rank) const { return rank < n_ && rank != rank_; }

  static constexpr size_t kSourceBytes = size_t{proto::kMeshLines} * proto::kMeshLineBytes;

  const uint32_t n_, rank_, flag_;
  const proto::FaultLatch* const latch_;
  uint8_t* const* const mesh_;
  const size_t to_;                // in each rank's mesh: where this rank's lines go
  const uint8_t* const received_;  // the lines of rank 0; the other ranks' follow
  const uint8_t* const input_;
  uint8_t* const output_;
  const uint32_t count_;
  const proto::Reduction reduction_;
};

// One item; see OneShot::run. Not inlined, so that the waiting has all registers.
template <class Red, class Coop>
GC_NOINLINE bool one_shot_all_reduce(Coop coop, const proto::ChannelComm& comm, uint32_t channel,
                                     const proto::CollectiveItem& item, const proto::Pack* early) {
  const OneShot<Red> one_shot(comm, channel, item);
#if GC_MUTANT == 6
  if (!one_shot.has_share()) return true;
#endif
  return one_shot.run(coop, early);
}

}  // namespace gpucoll::coll::device
