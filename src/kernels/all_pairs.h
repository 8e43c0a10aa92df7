// All-pairs collectives of one channel: every rank stores what it has for another straight into that one's memory, in
// lines of LL128. Nearly as few bytes as in a ring, in one or two hops: for messages of medium size.
//
//   all_reduce      reduce_scatter, then all_gather: each rank reduces a block
//   reduce          reduce_scatter, then gather
//   broadcast       scatter, then all_gather: each rank but the root hands a block on
//   reduce_scatter, all_gather, all_to_all, gather, scatter    as they are
//
// Each of these is a step (format/line_mesh.h) of a chunk, and a chunk is what fits into the areas. The blocks of the
// next chunk are on their way while those of this one are awaited.
// result = op(... op(x[0], x[1]) ..., x[n - 1]), in the order of the ranks: the same bits on all of them.
//
// Thread safety: called by all threads of the block that works for the channel. Warps meet nobody on the way: a unit of
// lines is one warp's in all steps. An element is read and written by one thread, in this order: so send and recv may
// be in place. Ownership: none.
#pragma once
#include "kernels/all_pairs_blocks.h"
#include "kernels/all_pairs_lines.h"

namespace gpucoll::coll::device {

// Red: the reduction, OneOf<Family> included, or CopyOf<uint8_t> where data are only moved; then counts are in bytes.
template <class Red>
class AllPairs {
  using Lines = PairLines<Red>;
  template <class U>
  using Packs = typename Lines::template Packs<U>;
  template <class U>
  using Incoming = typename Lines::template Incoming<U>;
  using T = typename Red::Element;
  static constexpr bool kReduces = Lines::kReduces;

 public:
  GC_DEV AllPairs(proto::Lane lane, const Work& work, proto::Function function, Range share)
      : blocks_(work, function, share, most_of(work.item)),
        reduction_(reduction_of_item(work)),
        lines_(lane, work, reduction_, is_aligned(work.item) && blocks_.is_aligned()),
        input_(static_cast<const uint8_t*>(work.item.send)),
        output_(static_cast<uint8_t*>(work.item.recv)) {}

  // Returns the number of steps that have been taken. After a fault it does not matter.
  //
  // Chunk c is sent while c - 1 is under way, in one step; in two, once it has been handed on: only then has every rank
  // begun this operation (format/line_mesh.h).
  GC_DEV uint64_t run() const {
    const bool two = blocks_.steps().hands_on;
    uint64_t step = lines_.steps_taken(), next = blocks_.first();
    PairChunk before = blocks_.none();
    GC_NO_UNROLL
    for (;; step += two ? 2 : 1) {
      const PairChunk chunk = blocks_.chunk_at(next);
      if (blocks_.is_there(chunk)) send_blocks(chunk, step);
      if (blocks_.is_there(before) && (two || !kReduces) && !keep_blocks(before, step - 1)) break;
      const PairChunk& complete = two ? chunk : before;
      if (blocks_.is_there(complete) && (two || kReduces) && !combine_block(complete, two ? step : step - 1)) break;
      if (!blocks_.is_there(chunk)) break;
      next = chunk.end;
      before = chunk;
    }
    return step;
  }

 private:
  // To every other rank its block, the next one's first. What is moved within this rank, or by the root of a broadcast,
  // is kept here as well.
  GC_DEV void send_blocks(const PairChunk& chunk, uint64_t step) const {
    const PairSteps& steps = blocks_.steps();
    GC_NO_UNROLL
    for (uint32_t hops = kReduces ? 1 : 0; hops < blocks_.n(); ++hops) {
      const uint32_t to = blocks_.after(hops);
      const uint32_t bytes = steps.first(blocks_.rank(), to) ? blocks_.bytes_of(chunk, to) : 0;
      const uint8_t* const from = input_ + blocks_.sent_from(chunk, to);
      uint8_t* const output = output_ + blocks_.received_at(chunk, to);
      const bool keeps = !kReduces && from != output && (hops == 0 || (steps.cuts && bytes != 0));
      lines_.each(bytes, bytes, [&](auto units) {
        Packs<decltype(units)> packs;
        lines_.read(units, from, bytes, packs);
        if (keeps) lines_.write(units, output, bytes, packs);
        if (hops > 0) lines_.store(units, to, step, bytes, packs);
        return true;
      });
    }
  }

  // Makes this rank's block of what all have sent of it in a step, hands it on in the next one and keeps it, as the
  // function wants.
  GC_DEV bool combine_block(const PairChunk& chunk, uint64_t step) const {
    const PairSteps& steps = blocks_.steps();
    const uint32_t rank = blocks_.rank(), bytes = blocks_.bytes_of(chunk, rank);
    const uint8_t* const own = input_ + blocks_.sent_from(chunk, rank);
    uint8_t* const output = output_ + blocks_.received_at(chunk, rank);
    const bool keeps = !steps.hands_on || steps.second(rank);
    return lines_.each(bytes, bytes, [&](auto units) {
      Packs<decltype(units)> result;
      if (!combine(units, step, own, bytes, result)) return false;
      if (steps.hands_on) hand_on(units, step + 1, bytes, result);
      if (keeps) lines_.write(units, output, bytes, result);
      return true;
    });
  }
  template <class U>
  GC_DEV bool combine(U units, uint64_t step, const uint8_t* own, uint32_t bytes, Packs<U>& result) const {
    const uint32_t n = blocks_.n(), rank = blocks_.rank();
    const auto has_data = [&](uint32_t from) { return blocks_.steps().first(from, rank); };
    Packs<U> mine{};
    if constexpr (kReduces) lines_.read(units, own, bytes, mine);
    bool is_first = true;
    GC_NO_UNROLL
    for (uint32_t base = 0; base < n; base += Lines::kRanks) {
      Incoming<U> in{};
      if (!lines_.receive(units, base, step, in, [&](uint32_t from) { return has_data(from) ? bytes : 0; }))
        return false;
      GC_UNROLL
      for (uint32_t k = 0; k < Lines::kRanks; ++k) {
        const uint32_t from = base + k;
        if (from >= n || !has_data(from)) continue;
        lines_.each_part(units, [&](int u, int i, const proto::LinePart&) {
          proto::Pack x = Lines::template data<U>(in, k, u, i);
          if constexpr (kReduces) {
            if (from == rank) x = mine[u][i];
            if (!is_first) x = join(result[u][i], x);
          }
          result[u][i] = x;
        });
        is_first = false;
      }
    }
    if constexpr (kReduces)
      lines_.each_part(units, [&](int u, int i, const proto::LinePart&) {
        result[u][i] = proto::PackUnit<Red>::post(result[u][i], reduction_);
      });
    return true;
  }
  GC_DEV proto::Pack join(const proto::Pack& a, const proto::Pack& b) const {
    if constexpr (proto::kChosen<Red>) return proto::PackUnit<Red>::apply(a, b, reduction_);
    if constexpr (!proto::kChosen<Red>) return proto::PackUnit<Red>::apply(a, b);
  }
  template <class U>
  GC_DEV void hand_on(U units, uint64_t step, uint32_t bytes, const Packs<U>& packs) const {
    GC_NO_UNROLL
    for (uint32_t hops = 1; hops < blocks_.n(); ++hops) {
      const uint32_t to = blocks_.after(hops);
      lines_.store(units, to, step, blocks_.steps().second(to) ? bytes : 0, packs);
    }
  }

  // Keeps what all others have sent of their own blocks in the function's last step.
  GC_DEV bool keep_blocks(const PairChunk& chunk, uint64_t step) const {
    const auto bytes_from = [&](uint32_t from) { return blocks_.is_other(from) ? blocks_.kept_bytes(chunk, from) : 0; };
    uint32_t least = chunk.block, most = 0;
    GC_NO_UNROLL
    for (uint32_t from = 0; from < blocks_.n(); ++from) {
      const uint32_t bytes = bytes_from(from);
      if (bytes != 0 && bytes < least) least = bytes;
      if (bytes > most) most = bytes;
    }
    return lines_.each(least < most ? least : most, most, [&](auto units) {
      GC_NO_UNROLL
      for (uint32_t base = 0; base < blocks_.n(); base += Lines::kRanks) {
        Incoming<decltype(units)> in{};
        if (!lines_.receive(units, base, step, in, bytes_from)) return false;
        GC_UNROLL
        for (uint32_t k = 0; k < Lines::kRanks; ++k) {
          const uint32_t bytes = bytes_from(base + k);
          if (bytes == 0) continue;
          Packs<decltype(units)> packs;
          lines_.each_part(units, [&](int u, int i, const proto::LinePart&) {
            packs[u][i] = Lines::template data<decltype(units)>(in, k, u, i);
          });
          lines_.write(units, output_ + blocks_.received_at(chunk, base + k), bytes, packs);
        }
      }
      return true;
    });
  }

  static GC_DEV bool is_aligned(const proto::CollectiveItem& item) {
    return (reinterpret_cast<uintptr_t>(item.send) | reinterpret_cast<uintptr_t>(item.recv)) % sizeof(proto::Pack) == 0;
  }
  static GC_DEV uint32_t most_of(const proto::CollectiveItem& item) {
    constexpr uint32_t kMost = Lines::kAreaData;
    return item.chunk_bytes >= 128 && item.chunk_bytes < kMost ? item.chunk_bytes / 128 * 128 : kMost;
  }
  static GC_DEV proto::Reduction reduction_of_item(const Work& work) {
    if constexpr (kReduces) return reduction_of<T>(work.item, work.op);
    return {};
  }

  const PairBlocks<sizeof(T)> blocks_;
  const proto::Reduction reduction_;
  const Lines lines_;
  const uint8_t* const input_;
  uint8_t* const output_;
};

template <class Red, class Block>
GC_NOINLINE void all_pairs(Block block, Work work, proto::Function function) {
  constexpr uint32_t kBytes = sizeof(typename Red::Element);
  const Range share =
      channel_range(work.item.count, kBytes, work.item.n_channels, work.channel - work.item.first_channel);
  if (share.count == 0) return;
  // On some ranks a block has more threads, for messages.
  const proto::Lane lane{static_cast<uint32_t>(block.rank()), work.item.threads};
  uint64_t step = 0;
  if (lane.rank < lane.size) step = AllPairs<Red>(lane, work, function, share).run();
  block.sync();  // all have read the number of steps
  if (block.rank() == 0) work.comm.line_mesh->step = step;
}

}  // namespace gpucoll::coll::device
