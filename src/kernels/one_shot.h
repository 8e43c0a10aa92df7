// One-shot collectives of one channel: every rank stores what it has for another straight into that one's memory, and
// keeps or reduces what it receives. One hop, however many ranks: for messages whose latency is what they cost.
//
//   all_reduce      own elements to every rank; all are reduced
//   reduce_scatter  a block to each rank; those for this one are reduced
//   reduce          own elements to the root, which reduces all
//   all_gather      own block to every rank; all are kept
//   broadcast       the root's to every rank; they are kept
//   all_to_all      a block to each rank; all that come are kept
//   gather          own block to the root, which keeps all
//   scatter         the root's, a block to each rank; it is kept
//   scan, exscan    own elements to every later rank, which reduces those of the ranks before it and its own, or not
//
// result = op(... op(x[0], x[1]) ..., x[n - 1]), in the order of the ranks: where several have it, with the same bits.
// A scan reduces up to the own rank, an exscan up to the rank before.
// A rank that has no data for another one stores an empty pack there: the next operations count on hearing from every
// rank (format/mesh.h).
//
// Thread safety: called by all threads of the one group that works for the channel, which meet at a barrier between
// two operations (format/mesh.h says why; run_one_shots does it). Ownership: none. No barrier inside: each pack is one
// thread's from the load of the own elements to the store of the result, so that send and recv may be in place.
#pragma once
#include "kernels/work.h"
#include "proto/line_parts.h"
#include "proto/ll.h"

namespace gpucoll::coll::device {

// Says which ranks have data for which, and where these lie. Strides in bytes go from one rank's data to the next
// rank's.
struct Exchange {
  static constexpr uint32_t kAll = ~uint32_t{0};
  uint64_t send_stride = 0, recv_stride = 0;
  uint32_t source = kAll, target = kAll;  // the only rank that has data; the only one that gets any
  bool scans = false, exclusive = false;  // data go to later ranks only; and the own are not reduced

  GC_DEV bool sends(uint32_t rank) const { return source == kAll || source == rank; }
  GC_DEV bool receives(uint32_t rank) const { return (target == kAll || target == rank) && !(exclusive && rank == 0); }
  // Returns whether the data of `from` are part of what `to` gets.
  GC_DEV bool has(uint32_t from, uint32_t to) const {
    return sends(from) && receives(to) && (!scans || from < to || (from == to && !exclusive));
  }
};
GC_DEV Exchange exchange_of(const proto::CollectiveItem& item, uint64_t block_bytes) {
  using proto::Function;
  switch (item.function) {
    case Function::reduce_scatter: return {block_bytes, 0};
    case Function::all_gather: return {0, block_bytes};
    case Function::reduce: return {0, 0, Exchange::kAll, item.root};
    case Function::broadcast: return {0, 0, item.root, Exchange::kAll};
    case Function::all_to_all: return {block_bytes, block_bytes};
    case Function::gather: return {0, block_bytes, Exchange::kAll, item.root};
    case Function::scatter: return {block_bytes, 0, item.root, Exchange::kAll};
    case Function::scan: return {0, 0, Exchange::kAll, Exchange::kAll, true};
    case Function::exscan: return {0, 0, Exchange::kAll, Exchange::kAll, true, true};
    default: return {};
  }
}

// An operation among those of its launch.
struct Turn {
  uint32_t flag;
  bool is_first;
  proto::Pack early;  // of the first one: what read_first() said
};

// Red: the reduction, or CopyOf<uint8_t> where data are only moved; then counts are in bytes.
template <class Red>
class OneShot {
 public:
  // The channel's share is at most kMeshChannelData bytes, and empty for channels that are not the item's.
  // REQUIRES: channel < kMeshChannels, n_ranks <= kMeshMaxRanks.
  GC_DEV OneShot(const proto::ChannelComm& comm, uint32_t channel, const proto::CollectiveItem& item, uint32_t flag)
      : OneShot(comm, channel, item, flag, share_of(item, channel)) {}

  // Reads what this thread will send first, at least to the next rank. It may be read before anything else is there.
  static GC_DEV proto::Pack read_first(const proto::CollectiveItem& item, uint32_t channel, uint32_t thread) {
    const Range share = share_of(item, channel);
    if (item.send == nullptr || uint64_t{thread} * kPer >= share.count) return {};
    const uint64_t block = exchange_of(item, item.count * sizeof(T)).send_stride * item.next_rank;
    const uint8_t* const input = static_cast<const uint8_t*>(item.send) + block + share.first * sizeof(T);
    return proto::read_fast<T>(input + thread * sizeof(proto::Pack), bytes(static_cast<uint32_t>(share.count), thread));
  }
  // False once the fault latch has ended a wait of this thread.
  template <class Coop>
  GC_DEV bool run(const Coop& coop, const Turn& turn) const {
    const uint32_t first = static_cast<uint32_t>(coop.rank()), step = static_cast<uint32_t>(coop.size());
    // An empty share is a pack of nothing: peers may use this half of the mesh again once they have received it.
    const uint32_t packs = count_ == 0 ? 1 : (count_ + kPer - 1) / kPer;
    if (first >= packs) return true;
    const proto::Pack own = send(first, turn.is_first, turn.early);
    if (first == 0 && network_) post(packs);
    for (uint32_t p = first + step; p < packs; p += step) send(p, false, {});
    bool ok = finish(first, own);
    for (uint32_t p = first + step; ok && p < packs; p += step)
      ok = finish(p, kReduces ? read_for(rank_, p) : proto::Pack{});
    return ok;
  }

  GC_DEV bool has_share() const { return count_ != 0; }

 private:
  using T = typename Red::Element;
  using Unit = proto::PackUnit<Red>;
  static constexpr bool kReduces = !proto::kCopies<Red>;
  static constexpr uint32_t kPer = proto::kPerPack<T>;
  // Ranks whose memory is on its way at the same time.
  static constexpr uint32_t kBatch = 4;

  GC_DEV OneShot(const proto::ChannelComm& comm, uint32_t channel, const proto::CollectiveItem& item, uint32_t flag,
                 Range share)
      : n_(static_cast<uint32_t>(comm.n_ranks)),
        rank_(static_cast<uint32_t>(comm.rank)),
        flag_(flag),
        network_(comm.network_mesh != 0),
        lines_(network_ ? proto::kNetworkMeshLines : proto::kMeshLines),
        latch_(comm.latch),
        mesh_(comm.mesh),
        to_(lines_of(channel, rank_)),
        received_(comm.mesh[rank_] + lines_of(channel, 0)),
        exchange_(exchange_of(item, item.count * sizeof(T))),
        input_(static_cast<const uint8_t*>(item.send) + share.first * sizeof(T)),
        output_(static_cast<uint8_t*>(item.recv) + share.first * sizeof(T)),
        count_(static_cast<uint32_t>(share.count)),
        reduction_(reduction(item)) {}

  static GC_DEV proto::Reduction reduction(const proto::CollectiveItem& item) {
    if constexpr (kReduces) return reduction_of<T>(item, 0);
    return {};
  }
  static GC_DEV Range share_of(const proto::CollectiveItem& item, uint32_t channel) {
    const uint32_t index = channel - item.first_channel;
    if (index >= item.n_channels) return {0, 0};
    return channel_range(item.count, sizeof(T), item.n_channels, index);
  }
  GC_DEV size_t lines_of(uint32_t channel, uint32_t source) const {
    const uint32_t flag = proto::kMutant == 4 ? 0 : flag_;  // 4: one half for all operations
    return proto::mesh_offset(static_cast<int>(n_), static_cast<int>(channel), flag, static_cast<int>(source), lines_);
  }
  // Returns the bytes of a pack of a share.
  static GC_DEV uint32_t bytes(uint32_t count, uint32_t pack) {
    const uint32_t left = count - pack * kPer;
    return (left < kPer ? left : kPer) * static_cast<uint32_t>(sizeof(T));
  }
  // This rank's own for a rank, ready to be sent and reduced.
  GC_DEV proto::Pack read_for(uint32_t rank, uint32_t index) const {
    const uint8_t* const block = input_ + rank * exchange_.send_stride;
    return ready(proto::read_fast<T>(block + index * sizeof(proto::Pack), bytes(count_, index)));
  }
  GC_DEV proto::Pack ready(const proto::Pack& pack) const {
    if constexpr (kReduces) return Unit::pre(pack, reduction_);
    return pack;
  }
  GC_DEV uint8_t* kept_of(uint32_t rank, uint32_t index) const {
    return output_ + rank * exchange_.recv_stride + index * sizeof(proto::Pack);
  }
  // Returns whether `from` sends a pack to `to`. It always sends the first one, if without data.
  GC_DEV bool comes(uint32_t from, uint32_t to, uint32_t index) const {
    // Mutant 11: ranks that have no data for each other keep silent.
    return (index == 0 && proto::kMutant != 11) || exchange_.has(from, to);
  }

  // A pack for every other rank; returns the own one for this rank. What is moved is kept here as well.
  GC_DEV proto::Pack send(uint32_t index, bool is_early, const proto::Pack& early) const {
    proto::Pack own{};
    const bool sends = exchange_.sends(rank_);
    if (exchange_.send_stride != 0) {
      if (sends) own = read_for(rank_, index);
      store_to_all(index, [&](uint32_t hops, uint32_t rank) {
        if (!sends) return own;
        return hops == 1 && is_early ? ready(early) : read_for(rank, index);
      });
    } else {
      if (sends) own = is_early ? ready(early) : read_for(rank_, index);
      store_to_all(index, [&](uint32_t, uint32_t) { return own; });
    }
    if constexpr (!kReduces) keep_own(index, own);
    return own;
  }
  // Moves this rank's data to itself, unless they are there.
  GC_DEV void keep_own(uint32_t index, const proto::Pack& own) const {
    if (!exchange_.has(rank_, rank_) || kept_of(rank_, 0) == input_ + rank_ * exchange_.send_stride) return;
    proto::write_fast<T>(kept_of(rank_, index), own, bytes(count_, index));
  }
  // pack(hops, rank): for the rank that is so many after this one. The next one first, so that not all store to one.
  template <class PackFor>
  GC_DEV void store_to_all(uint32_t index, const PackFor& pack_for) const {
    for (uint32_t base = 1; base < n_; base += kBatch) {
      uint8_t* to[kBatch] = {};
      proto::Pack pack[kBatch] = {};
      GC_UNROLL
      for (uint32_t k = 0; k < kBatch; ++k) {
        const uint32_t hops = base + k, after = rank_ + hops, rank = after < n_ ? after : after - n_;
        if (hops >= n_ || !comes(rank_, rank, index)) continue;
        to[k] = mesh_[rank] + to_;
        pack[k] = pack_for(hops, rank);
      }
      GC_UNROLL
      for (uint32_t k = 0; k < kBatch; ++k) {
        if (to[k] != nullptr) proto::ll_store(to[k], index, pack[k], flag_, lines_ / 2);
      }
    }
  }

  // Tells the host how many packs there are for each rank.
  GC_DEV void post(uint32_t packs) const {
    for (uint32_t rank = 0; rank < n_; ++rank) {
      if (rank == rank_) continue;
      auto* const to = reinterpret_cast<uint64_t*>(mesh_[rank] + proto::mesh_post_offset(static_cast<int>(n_), flag_));
      proto::store_relaxed(to, proto::mesh_post(flag_, exchange_.has(rank_, rank) ? packs : 1));
    }
  }

  // Takes what comes from every other rank. own: what send() returned.
  GC_DEV bool finish(uint32_t index, const proto::Pack& own) const {
    const bool receives = exchange_.receives(rank_);
    proto::Pack result{};
    for (uint32_t base = 0; base < n_; base += kBatch) {
      proto::LlPack in[kBatch];
      if (!receive(index, base, in)) return false;
      GC_UNROLL
      for (uint32_t k = 0; k < kBatch; ++k) {
        const uint32_t rank = base + k;
        if (rank >= n_ || !receives) break;
        if constexpr (kReduces) {
          if (!exchange_.has(rank, rank_)) continue;
          const proto::Pack x = rank == rank_ ? own : in[k].data();
          result = rank == 0 ? x : Unit::apply(result, x);
        } else if (rank != rank_ && exchange_.sends(rank)) {
          proto::write_fast<T>(kept_of(rank, index), in[k].data(), bytes(count_, index));
        }
      }
    }
    if constexpr (kReduces) {
      if (receives) proto::write_fast<T>(kept_of(rank_, index), Unit::post(result, reduction_), bytes(count_, index));
    }
    return true;
  }

  // One pack from each rank of a batch: all loads of a turn come before the first look at what they brought.
  GC_DEV bool receive(uint32_t index, uint32_t base, proto::LlPack (&in)[kBatch]) const {
    for (uint32_t turn = proto::first_turn();; ++turn) {
      GC_UNROLL
      for (uint32_t k = 0; k < kBatch; ++k) {
        if (awaited(base + k, index))
          in[k] = proto::ll_load(received_ + (base + k) * source_bytes(), index, lines_ / 2);
      }
      bool all = true;
      GC_UNROLL
      for (uint32_t k = 0; k < kBatch; ++k) all &= !awaited(base + k, index) || in[k].arrived(flag_);
      if (all) return true;
      if (turn % proto::kLatchPeriod == 0 && proto::load_relaxed(&latch_->abort) != 0) return false;
      proto::pause();
    }
  }
  GC_DEV bool awaited(uint32_t rank, uint32_t index) const {
    return rank < n_ && rank != rank_ && comes(rank, rank_, index);
  }

  GC_DEV size_t source_bytes() const { return lines_ * proto::kMeshLineBytes; }

  const uint32_t n_, rank_, flag_;
  const bool network_;
  const uint32_t lines_;  // of a source
  const proto::FaultLatch* const latch_;
  uint8_t* const* const mesh_;
  const size_t to_;                // in each rank's mesh: where this rank's lines go
  const uint8_t* const received_;  // the lines of rank 0; the other ranks' follow
  const Exchange exchange_;
  const uint8_t* const input_;
  uint8_t* const output_;
  const uint32_t count_;
  const proto::Reduction reduction_;
};

// One item; see OneShot::run. Not inlined, so that the waiting has all registers.
template <class Red, class Coop>
GC_NOINLINE bool one_shot(Coop coop, const proto::ChannelComm& comm, uint32_t channel,
                          const proto::CollectiveItem& item, Turn turn) {
  const OneShot<Red> operation(comm, channel, item, turn.flag);
  if (proto::kMutant == 6 && !operation.has_share()) return true;
  return operation.run(coop, turn);
}

}  // namespace gpucoll::coll::device
