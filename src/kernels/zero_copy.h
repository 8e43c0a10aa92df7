// Zero-copy reductions of one channel: every rank reduces its block straight from the inputs of all ranks into the
// outputs, without buffers in between and without a second hop.
//
//   all_reduce      blocks of each rank, from all inputs to all outputs
//   reduce_scatter  each rank's block, from all inputs to its own output
//   reduce          a block of each rank but the root, from all inputs to the root's output; of two ranks, all is the
//                   root's
//
// Ranks tell each other their buffers' addresses at the beginning, and that they have done with them at the end
// (format/zero_copy.h). Where one of them cannot, all know it, and go the other way that the batch names, all pairs or
// a ring by Simple: with the same bits, so each element's order is that of the other way. All pairs: the order of the
// ranks. A ring: the element's place p has it last, result = op(... op(x[p+1], x[p+2]) ..., x[p]); its chunks are the
// ring's, too.
//
// Thread safety: called by all threads of the block that works for the channel. An element is read, at all ranks, and
// then written by one thread: so send and recv may be in place.
#pragma once
#include "kernels/ring_all_reduce.h"
#include "proto/family.h"
#include "proto/format/zero_copy.h"
#include "proto/messages.h"

// Mutants (see proto::kMutant): 16 ends without a closing, 17 goes on although a rank's addresses are not known, 18
// closes without a release, 19 begins with the rank that comes last in a ring.

namespace gpucoll::coll::device {

// All ranks' buffers, as this rank's kernels know them: inputs in the order in which they are reduced, outputs by rank.
// The threads of a block share it.
struct PeerBuffers {
  const uint8_t* send[proto::kZeroCopyRanks];
  uint8_t* recv[proto::kZeroCopyRanks];
};

// The order in which this rank reduces what it does.
class Order {
 public:
  GC_DEV Order(const Work& work, proto::Function function, bool in_ring) : work_(work), in_ring_(in_ring) {
    if (in_ring) last_ = hops_to(function == proto::Function::reduce ? work.item.root : self());
  }
  GC_DEV uint32_t place_of(uint32_t rank) const {
    if (!in_ring_) return rank;
    const uint32_t n = static_cast<uint32_t>(work_.comm.n_ranks), after = hops_to(rank) + n - last_;
    return (after + n - (proto::kMutant == 19 ? 0 : 1)) % n;
  }

 private:
  GC_DEV uint32_t self() const { return static_cast<uint32_t>(work_.comm.rank); }
  GC_DEV uint32_t hops_to(uint32_t rank) const {
    const Ring ring(work_);
    uint32_t hops = 0;
    while (static_cast<uint32_t>(ring.hops[hops]) != rank) ++hops;
    return hops;
  }

  const Work& work_;
  const bool in_ring_;
  uint32_t last_ = 0;  // hops to the rank that comes last
};

// The opening and the closing of one operation, of one block.
template <class Block>
class Opening {
 public:
  GC_DEV Opening(const Block& block, const Work& work, uint64_t call)
      : block_(block),
        work_(work),
        call_(call),
        n_(static_cast<uint32_t>(work.comm.n_ranks)),
        rank_(static_cast<uint32_t>(work.comm.rank)),
        count_(work.comm.openings),
        flag_(proto::flag_of(count_)) {}

  // mine: of send and of recv.
  GC_DEV void tell_all(const proto::BufferAddresses* mine) const {
    each_other([&](uint32_t rank) { tell(rank, mine); });
  }
  // True, on every thread and every rank alike, where all buffers are known.
  GC_DEV bool hear_all(const Order& order, PeerBuffers& buffers) const {
    bool missing = work_.item.open == 0;
    if (block_.rank() == 0) {
      buffers.send[order.place_of(rank_)] = static_cast<const uint8_t*>(work_.item.send);
      buffers.recv[rank_] = static_cast<uint8_t*>(work_.item.recv);
    }
    each_other([&](uint32_t rank) { missing |= !hear(rank, order, buffers); });
    missing = block_.any(missing);
    if (block_.rank() == 0) work_.comm.openings = count_ + 1;  // all threads have read it
    return !missing || proto::kMutant == 17;
  }
  // Every rank is done with this one's buffers then, and this one has what it was to get. stores: whether ranks store
  // into each other's.
  GC_DEV void close(bool stores) const {
    if (proto::kMutant == 16) return;
    block_.sync();
    each_other([&](uint32_t rank) {
      uint64_t* const closed = &note(rank, rank_)->closed;
      if (proto::kMutant == 18)
        proto::store_relaxed(closed, uint64_t{flag_});
      else if (stores)
        proto::store_release(closed, uint64_t{flag_});
      else
        proto::store_after_loads(closed, uint64_t{flag_});
    });
    each_other([&](uint32_t rank) {
      const uint64_t* const closed = &note(rank_, rank)->closed;
      await([&] { return proto::load_acquire(closed) == flag_; });
    });
  }

 private:
  // A thread for each.
  template <class Body>
  GC_DEV void each_other(const Body& body) const {
    GC_NO_UNROLL
    for (uint32_t rank = static_cast<uint32_t>(block_.rank()); rank < n_; rank += static_cast<uint32_t>(block_.size()))
      if (rank != rank_) body(rank);
  }
  GC_DEV proto::ZeroCopyNote* note(uint32_t at, uint32_t source) const {
    return reinterpret_cast<proto::ZeroCopyNote*>(
        work_.comm.mesh[at] +
        proto::zero_copy_offset(static_cast<int>(n_), work_.channel, count_, static_cast<int>(source)));
  }
  // False once the fault latch is set.
  template <class Condition>
  GC_DEV bool await(const Condition& met) const {
    for (uint32_t turn = proto::first_turn(); !met(); ++turn) {
      if (turn % proto::kLatchPeriod == 0 && proto::load_relaxed(&work_.comm.latch->abort) != 0) return false;
      proto::pause();
    }
    return true;
  }
  GC_DEV proto::WordPair words_of(uint64_t value) const {
    const uint64_t news = uint64_t{flag_} << 32;
    return {news | (value & 0xffffffff), news | value >> 32};
  }
  GC_DEV bool is_there(const proto::WordPair& words) const {
    return words.first >> 32 == flag_ && words.second >> 32 == flag_;
  }
  static GC_DEV uint64_t value_of(const proto::WordPair& words) {
    return (words.first & 0xffffffff) | words.second << 32;
  }
  GC_DEV void tell(uint32_t rank, const proto::BufferAddresses* mine) const {
    const uint64_t known = work_.item.open != 0 ? proto::kAddressesKnown : 0;
    proto::ZeroCopyNote* const to = note(rank, rank_);
    proto::store_pair_after_launches(&to->send, words_of(reinterpret_cast<uint64_t>(mine[0].at[rank])));
    proto::store_pair_after_launches(&to->recv, words_of(reinterpret_cast<uint64_t>(mine[1].at[rank])));
    proto::store_pair_after_launches(&to->call, words_of(call_ | known));
  }
  // Returns whether the rank's addresses are known and it calls the same. If not, reports that by the counts, be they
  // equal or not.
  GC_DEV bool hear(uint32_t rank, const Order& order, PeerBuffers& buffers) const {
    const proto::ZeroCopyNote* const from = note(rank_, rank);
    proto::WordPair send{}, recv{}, call{};
    const bool heard = await([&] {
      send = proto::load_pair_after_launches(&from->send);
      recv = proto::load_pair_after_launches(&from->recv);
      call = proto::load_pair_after_launches(&from->call);
      return is_there(send) && is_there(recv) && is_there(call);
    });
    if (!heard) return false;
    buffers.send[order.place_of(rank)] = reinterpret_cast<const uint8_t*>(value_of(send));
    buffers.recv[rank] = reinterpret_cast<uint8_t*>(value_of(recv));
    const uint64_t theirs = value_of(call) & ~proto::kAddressesKnown;
    if (theirs != call_) {
      proto::report_sizes(work_.comm.latch, {work_.item.count, static_cast<int32_t>(rank)},
                          proto::count_of_call(theirs), proto::kFaultCounts);
      return false;
    }
    return (value_of(call) & proto::kAddressesKnown) != 0;
  }

  const Block& block_;
  const Work& work_;
  const uint64_t call_;
  const uint32_t n_, rank_;
  const uint32_t count_, flag_;
};

// A part of what this rank reduces: so many elements, whose first one lies so many bytes behind the beginning of each
// input and of each output; and the ranks whose outputs they are.
struct OpenBlock {
  uint64_t from, to, count;
  uint32_t first_target, past_targets;
};
// Returns whether the root of a reduce reduces everything. With two ranks it does, so the link carries as little as can
// be. With more, all ranks but the root reduce a part, since one link would have to carry all inputs.
GC_DEV bool root_reduces(uint32_t n) { return n == 2; }
// Returns whether ranks store into each other's buffers.
GC_DEV bool stores_to_others(proto::Function function, uint32_t n) {
  return function == proto::Function::all_reduce || (function == proto::Function::reduce && !root_reduces(n));
}

// The elements that this rank reduces in this channel: one block, or in a ring's allreduce one of each round.
template <class Family, class Coop>
class OpenBlocks {
  static constexpr uint32_t kElement = sizeof(typename Family::Element);

 public:
  GC_DEV OpenBlocks(const Work& work, const proto::Batch& batch, bool in_ring)
      : work_(work),
        function_(batch.function),
        n_(static_cast<uint32_t>(work.comm.n_ranks)),
        rank_(static_cast<uint32_t>(work.comm.rank)),
        in_rounds_(in_ring && function_ == proto::Function::all_reduce),
        left_(in_rounds_ ? work.share<Family>() : part_of(work.share<Family>())),
        most_(in_rounds_ ? most_elements<RingPrimitives<Family, proto::Simple<>, Coop>>(work) : 0) {}

  GC_DEV bool next(OpenBlock& block) {
    if (left_.count == 0) return false;
    const Range here = in_rounds_ ? take_round() : take_all();
    block = {here.first * kElement, here.first * kElement, here.count, rank_, rank_ + 1};
    if (function_ == proto::Function::reduce_scatter) block.from += rank_ * work_.item.count * kElement;
    if (function_ == proto::Function::all_reduce) {
      block.first_target = 0;
      block.past_targets = n_;
    } else if (function_ == proto::Function::reduce) {
      block.first_target = work_.item.root;
      block.past_targets = work_.item.root + 1;
    }
    return true;
  }

 private:
  // Returns this rank's part of the channel's share.
  GC_DEV Range part_of(Range share) const {
    const uint32_t root = work_.item.root;
    if (function_ == proto::Function::all_reduce) return one_of(n_, rank_, share);
    if (function_ != proto::Function::reduce || (root_reduces(n_) && rank_ == root)) return share;
    if (root_reduces(n_) || rank_ == root) return {share.first, 0};
    return one_of(n_ - 1, rank_ < root ? rank_ : rank_ - 1, share);
  }
  static GC_DEV Range one_of(uint32_t parts, uint32_t part, Range share) {
    const Range range = channel_range(share.count, kElement, parts, part);
    return {share.first + range.first, range.count};
  }
  GC_DEV Range take_all() {
    const Range all = left_;
    left_.count = 0;
    return all;
  }
  GC_DEV Range take_round() {
    const uint64_t chunk = round_chunk(left_.count, kElement, n_, most_), round = chunk * n_;
    const RingRound this_one{left_.first, left_.count, chunk, n_, static_cast<uint32_t>(work_.comm.ring_index)};
    left_ = left_.count > round ? Range{left_.first + round, left_.count - round} : Range{};
    return this_one.before(0);
  }

  const Work& work_;
  const proto::Function function_;
  const uint32_t n_, rank_;
  const bool in_rounds_;
  Range left_;
  const uint64_t most_;
};

// Reduces the same elements of all inputs, into one output or all. It takes some ranks at a time, so that it is one
// code for any number of them; all loads of these come before the first use of what they bring. It is one function for
// all reductions of the family: which one it is concerns only what is in registers.
template <class Family>
class OpenReduction {
  using T = typename Family::Element;
  using Pack = proto::Pack;
  static constexpr uint32_t kRanks = 4, kPacks = 2, kPer = sizeof(Pack) / sizeof(T);

 public:
  GC_DEV OpenReduction(uint32_t n_ranks, const OpenBlock& block, const PeerBuffers& buffers,
                       const proto::Reduction& reduction)
      : n_(n_ranks), block_(block), buffers_(buffers), reduction_(reduction) {}

  GC_DEV void run(proto::Lane lane) const {
    const uint64_t packs = block_.count / kPer;
    GC_NO_UNROLL
    for (uint64_t i = lane.rank; i < packs; i += uint64_t{kPacks} * lane.size) reduce_packs(i, lane.size, packs);
    GC_NO_UNROLL
    for (uint64_t i = packs * kPer + lane.rank; i < block_.count; i += lane.size)
      Family::choose(reduction_.op, EachElement{*this, i * sizeof(T)});
  }

 private:
  // Joins the packs of ranks base, base + 1, ... below n to what those before have given.
  struct Join {
    Pack (&result)[kPacks];
    const Pack (&in)[kRanks][kPacks];
    uint32_t base, n;
    const proto::Reduction& reduction;
    template <class Red>
    GC_DEV void visit() const {
      GC_UNROLL
      for (uint32_t k = 0; k < kRanks; ++k) {
        if (base + k >= n) break;
        GC_UNROLL
        for (uint32_t u = 0; u < kPacks; ++u) {
          const Pack one =
              proto::kMayOpen<Red> && proto::kMutant != 30 ? proto::PackUnit<Red>::pre(in[k][u], reduction) : in[k][u];
          result[u] = base + k == 0 ? one : proto::PackUnit<Red>::apply(result[u], one);
        }
      }
    }
  };
  struct Complete {
    Pack (&result)[kPacks];
    const proto::Reduction& reduction;
    template <class Red>
    GC_DEV void visit() const {
      if constexpr (proto::kHasPost<Red>) {
        GC_UNROLL
        for (uint32_t u = 0; u < kPacks; ++u) result[u] = proto::PackUnit<Red>::post(result[u], reduction);
      }
    }
  };
  struct EachElement {
    const OpenReduction& all;
    uint64_t at;
    template <class Red>
    GC_DEV void visit() const {
      all.template reduce_element<proto::ElementUnit<Red, true>>(at);
    }
  };

  GC_DEV const uint8_t* from(uint32_t rank) const { return buffers_.send[rank] + block_.from; }
  GC_DEV uint8_t* to(uint32_t rank) const { return buffers_.recv[rank] + block_.to; }

  // Packs first, first + step, ... below `end`.
  GC_DEV void reduce_packs(uint64_t first, uint32_t step, uint64_t end) const {
    const auto each = [&](const auto& f) {
      GC_UNROLL
      for (uint32_t u = 0; u < kPacks; ++u) {
        if (first + u * step < end) f(u, (first + u * step) * sizeof(Pack));
      }
    };
    Pack result[kPacks];
    GC_NO_UNROLL
    for (uint32_t base = 0; base < n_; base += kRanks) {
      Pack in[kRanks][kPacks];
      GC_UNROLL
      for (uint32_t k = 0; k < kRanks; ++k) {
        if (base + k < n_) each([&](uint32_t u, uint64_t at) { in[k][u] = proto::load<Pack>(from(base + k) + at); });
      }
      Family::choose(reduction_.op, Join{result, in, base, n_, reduction_});
    }
    if ((Family::kPost >> reduction_.op & 1) != 0) Family::choose(reduction_.op, Complete{result, reduction_});
    GC_NO_UNROLL
    for (uint32_t rank = block_.first_target; rank < block_.past_targets; ++rank)
      each([&](uint32_t u, uint64_t at) { proto::store(to(rank) + at, result[u]); });
  }
  template <class Element>
  GC_DEV void reduce_element(uint64_t at) const {
    const auto operand = [&](uint32_t rank) { return Element::pre(Element::read(from(rank) + at), reduction_); };
    auto result = operand(0);
    GC_NO_UNROLL
    for (uint32_t rank = 1; rank < n_; ++rank) result = Element::apply(result, operand(rank));
    result = Element::post(result, reduction_);
    GC_NO_UNROLL
    for (uint32_t rank = block_.first_target; rank < block_.past_targets; ++rank) Element::write(to(rank) + at, result);
  }

  const uint32_t n_;
  const OpenBlock block_;
  const PeerBuffers& buffers_;
  const proto::Reduction reduction_;
};

template <class Family>
GC_NOINLINE void reduce_open_block(proto::Lane lane, uint32_t n_ranks, const OpenBlock& block,
                                   const PeerBuffers& buffers, proto::Reduction reduction) {
  OpenReduction<Family>(n_ranks, block, buffers, reduction).run(lane);
}

// Reduces; with two ranks by the primitives' own code.
template <class Family, class Block>
GC_DEV void reduce_open(const Block& block, const OpenBlock& mine, const PeerBuffers& buffers, uint32_t n_ranks,
                        const proto::Reduction& reduction) {
  const proto::Lane lane{static_cast<uint32_t>(block.rank()), static_cast<uint32_t>(block.size())};
  if (n_ranks > 2) return reduce_open_block<Family>(lane, n_ranks, mine, buffers, reduction);
  proto::Operands operands{};
  operands.complete = true;
  operands.n_raw = 2;
  operands.read(buffers.send[0] + mine.from);
  operands.read(buffers.send[1] + mine.from);
  for (uint32_t r = mine.first_target; r < mine.past_targets; ++r) operands.write(buffers.recv[r] + mine.to);
  proto::reduce_copy<Family, 2>(block, operands, mine.count, reduction);
}

// False, on every rank alike, where not all ranks' addresses are known: nothing has happened then. Which elements are
// this rank's is found out while the notes are on their way. REQUIRES: kMayOpen, of the reduction.
template <class Family, class Block>
GC_NOINLINE bool zero_copy(Block block, proto::Batch batch, Work work, const proto::BufferAddresses* addresses,
                           PeerBuffers& buffers) {
  constexpr uint32_t kElement = sizeof(typename Family::Element);
  static_assert(kElement < 1 << 6);
  const Opening<Block> opening(block, work,
                               proto::call_word(work.item.count, batch.function, work.item.root, kElement));
  opening.tell_all(addresses);
  const bool in_ring = batch.algorithm == proto::Algorithm::ring;
  OpenBlocks<Family, decltype(block.split(1))> blocks(work, batch, in_ring);
  const proto::Reduction reduction = work.reduction<Family>();
  if (!opening.hear_all(Order(work, batch.function, in_ring), buffers)) return false;
  const auto n = static_cast<uint32_t>(work.comm.n_ranks);
  GC_NO_UNROLL
  for (OpenBlock mine; blocks.next(mine);) reduce_open<Family>(block, mine, buffers, n, reduction);
  opening.close(stores_to_others(batch.function, n));
  return true;
}

}  // namespace gpucoll::coll::device
