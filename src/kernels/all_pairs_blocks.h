// Which blocks an all-pairs collective moves from whom to whom, and where they lie.
//
// Pure functions of facts that are the same on all ranks, but for the rank's own number. Offsets are in bytes.
#pragma once
#include "kernels/work.h"

namespace gpucoll::coll::device {

// Says which ranks have blocks for which in the steps of a function, and where blocks lie.
struct PairSteps {
  static constexpr uint32_t kAll = ~uint32_t{0};
  uint32_t source = kAll, target = kAll;  // of the first step: the only rank that has data; the only one that gets any
  bool hands_on = false;                  // there is a second step, in which each rank has its block for others:
  uint32_t end = kAll, skipped = kAll;    // the only one that gets any; the one that gets none
  // Blocks are cut from a vector; of a broadcast, for those after the root, which has none itself. Else they have
  // places by rank in `send`, in `recv`, or in both.
  bool cuts = false, sends_blocks = false, receives_blocks = false;

  GC_DEV bool first(uint32_t from, uint32_t to) const {
    return (source == kAll || source == from) && (target == kAll || target == to);
  }
  GC_DEV bool second(uint32_t to) const { return (end == kAll || end == to) && skipped != to; }
};
GC_DEV PairSteps pair_steps(proto::Function function, uint32_t root) {
  using proto::Function;
  constexpr uint32_t kAll = PairSteps::kAll;
  switch (function) {
    case Function::all_reduce: return {kAll, kAll, true, kAll, kAll, true};
    case Function::reduce: return {kAll, kAll, true, root, kAll, true};
    case Function::broadcast: return {root, kAll, true, kAll, root, true};
    case Function::reduce_scatter: return {kAll, kAll, false, kAll, kAll, false, true, false};
    case Function::all_gather: return {kAll, kAll, false, kAll, kAll, false, false, true};
    case Function::gather: return {kAll, root, false, kAll, kAll, false, false, true};
    case Function::scatter: return {root, kAll, false, kAll, kAll, false, true, false};
    default: return {kAll, kAll, false, kAll, kAll, false, true, true};  // all_to_all
  }
}

// The bytes that go through the areas at once. Where blocks are cut from a vector, that of place p begins p * block
// behind `first`, and none goes beyond `end`; else each has `block` bytes, `first` behind its beginning.
struct PairChunk {
  uint64_t first, end;
  uint32_t block;
};

// One channel's share of an item, whose elements have so many bytes.
template <uint32_t kElement>
class PairBlocks {
 public:
  // most: bytes of a block in one chunk, whole lines.
  GC_DEV PairBlocks(const Work& work, proto::Function function, Range share, uint32_t most)
      : n_(static_cast<uint32_t>(work.comm.n_ranks)),
        rank_(static_cast<uint32_t>(work.comm.rank)),
        steps_(pair_steps(function, work.item.root)),
        first_rank_(function == proto::Function::broadcast ? next(work.item.root, 1) : 0),
        places_(function == proto::Function::broadcast ? n_ - 1 : n_),
        most_(most),
        stride_(work.item.count * kElement),
        first_(share.first * kElement),
        end_((share.first + share.count) * kElement) {}

  GC_DEV uint32_t n() const { return n_; }
  GC_DEV uint32_t rank() const { return rank_; }
  GC_DEV const PairSteps& steps() const { return steps_; }
  // The rank so many places after this one.
  GC_DEV uint32_t after(uint32_t hops) const { return next(rank_, hops); }
  GC_DEV bool is_other(uint32_t rank) const { return rank < n_ && rank != rank_; }
  // Where the buffers are aligned to 16 bytes, whether all blocks are.
  GC_DEV bool is_aligned() const { return (steps_.cuts ? 0 : stride_) % sizeof(proto::Pack) == 0; }

  GC_DEV uint64_t first() const { return first_; }
  GC_DEV PairChunk none() const { return {end_, end_, 0}; }
  GC_DEV bool is_there(const PairChunk& chunk) const { return chunk.first < end_; }
  GC_DEV PairChunk chunk_at(uint64_t first) const {
    if (first >= end_) return none();
    const uint64_t left = end_ - first, parts = steps_.cuts ? places_ : 1;
    const uint64_t elements = round_chunk(left / kElement, kElement, static_cast<uint32_t>(parts), most_ / kElement);
    const uint64_t block = elements * kElement, all = block * parts;
    const uint64_t bytes = steps_.cuts || block < left ? block : left;
    return {first, first + (all < left ? all : left), static_cast<uint32_t>(bytes)};
  }
  GC_DEV uint64_t sent_from(const PairChunk& chunk, uint32_t to) const {
    return offset_of(chunk, to, steps_.sends_blocks);
  }
  GC_DEV uint64_t received_at(const PairChunk& chunk, uint32_t from) const {
    return offset_of(chunk, from, steps_.receives_blocks);
  }
  GC_DEV uint32_t bytes_of(const PairChunk& chunk, uint32_t rank) const {
    if (!steps_.cuts) return chunk.block;
    const uint32_t from = place_of(rank) * chunk.block, all = static_cast<uint32_t>(chunk.end - chunk.first);
    const uint32_t left = from < all ? all - from : 0;
    return left < chunk.block ? left : chunk.block;
  }
  // Returns how many bytes of a rank's own block this rank gets in the function's last step.
  GC_DEV uint32_t kept_bytes(const PairChunk& chunk, uint32_t from) const {
    const bool has_data = steps_.hands_on ? steps_.second(rank_) : steps_.first(from, rank_);
    return has_data ? bytes_of(chunk, from) : 0;
  }

 private:
  GC_DEV uint32_t next(uint32_t rank, uint32_t hops) const { return rank + hops < n_ ? rank + hops : rank + hops - n_; }
  // Among the blocks of a vector: ranks in order, of a broadcast from the one after the root.
  GC_DEV uint32_t place_of(uint32_t rank) const {
    return rank >= first_rank_ ? rank - first_rank_ : rank + n_ - first_rank_;
  }
  // by_rank: the buffer has a block for each rank.
  GC_DEV uint64_t offset_of(const PairChunk& chunk, uint32_t rank, bool by_rank) const {
    const uint64_t stride = steps_.cuts ? chunk.block : by_rank ? stride_ : 0;
    return chunk.first + place_of(rank) * stride;
  }

  const uint32_t n_, rank_;
  const PairSteps steps_;
  const uint32_t first_rank_, places_;  // of the blocks of a vector
  const uint32_t most_;
  const uint64_t stride_;       // of blocks by rank
  const uint64_t first_, end_;  // the channel's share of a vector, or of each block
};

}  // namespace gpucoll::coll::device
