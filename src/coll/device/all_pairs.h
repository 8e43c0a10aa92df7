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
#include "coll/device/work.h"
#include "proto/format/line_mesh.h"
#include "proto/line_parts.h"
#include "proto/ll128.h"

namespace gpucoll::coll::device {

// Who has a block for whom in the steps of a function, and where blocks lie.
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

// What goes through the areas at once, in bytes. Where blocks are cut from a vector, that of place p begins p * block
// behind `first`, and none goes beyond `end`; else each has `block` bytes, `first` behind its beginning.
struct PairChunk {
  uint64_t first, end;
  uint32_t block;
};

// Red: the reduction, or CopyOf<uint8_t> where data are only moved; then counts are in bytes.
template <class Red>
class AllPairs {
 public:
  GC_DEV AllPairs(proto::Lane lane, const Work& work, proto::Function function, Range share)
      : n_(static_cast<uint32_t>(work.comm.n_ranks)),
        rank_(static_cast<uint32_t>(work.comm.rank)),
        channel_(work.channel),
        latch_(work.comm.latch),
        ends_(work.comm.line_mesh),
        steps_(pair_steps(function, work.item.root)),
        first_rank_(function == proto::Function::broadcast ? after(work.item.root, 1) : 0),
        places_(function == proto::Function::broadcast ? n_ - 1 : n_),
        step_(ends_->step),
        input_(static_cast<const uint8_t*>(work.item.send)),
        output_(static_cast<uint8_t*>(work.item.recv)),
        stride_(work.item.count * sizeof(T)),
        first_(share.first * sizeof(T)),
        end_((share.first + share.count) * sizeof(T)),
        most_(most_of(work.item)),
        aligned_(is_aligned()),
        reduction_(reduction_of_item(work)),
        lines_(work.shape()),
        worker_(lane.rank / Lines::kThreads),
        workers_(lane.size / Lines::kThreads),
        lane_(lane.rank % Lines::kThreads) {}

  // Returns the number of steps that have been taken. After a fault it does not matter.
  //
  // Chunk c is sent while c - 1 is under way, in one step; in two, once it has been handed on: only then has every rank
  // begun this operation (format/line_mesh.h).
  GC_DEV uint64_t run() {
    const bool keeps = steps_.hands_on || !kReduces, combines = steps_.hands_on || kReduces;
    PairChunk before{end_, end_, 0};
    GC_NO_UNROLL
    for (uint64_t next = first_;; step_ += steps_.hands_on ? 2 : 1) {
      const PairChunk chunk = chunk_at(next);
      if (is_there(chunk)) send_blocks(chunk, step_);
      if (is_there(before) && keeps && !keep_blocks(before, step_ - 1)) break;
      const PairChunk& complete = steps_.hands_on ? chunk : before;
      if (is_there(complete) && combines && !combine_block(complete, steps_.hands_on ? step_ : step_ - 1)) break;
      if (!is_there(chunk)) break;
      next = chunk.end;
      before = chunk;
    }
    return step_;
  }

 private:
  using T = typename Red::Element;
  using Unit = proto::PackUnit<Red>;
  using Pack = proto::Pack;
  using LinePart = proto::LinePart;
  using Lines = proto::Ll128Lines<(sizeof(T) <= 8)>;
  static constexpr bool kReduces = !proto::kCopies<Red>;
  static constexpr uint32_t kAreaData =
      proto::kLineAreaBytes / (Lines::kLines * proto::kLl128LineBytes) * Lines::kUnitBytes / 128 * 128;
  // Else parts begin anywhere, as on the emulated device.
  static constexpr bool kWholePacks = Lines::kUnitBytes % sizeof(Pack) == 0;
  // Units of a worker, and ranks, whose lines are on their way at the same time.
  static constexpr int kUnits = kReduces ? 2 : 4;
  static constexpr uint32_t kRanks = kReduces ? 4 : 2;

  // Units first + i * workers_ below `end`, at most kCount. kWhole: all of their bytes are data, at aligned addresses.
  template <int kCount_, bool kWhole_>
  struct Units {
    static constexpr int kCount = kCount_;
    static constexpr bool kWhole = kWhole_;
    uint32_t first, end;
  };
  template <class U>
  using Packs = Pack[U::kCount][Lines::kParts];
  template <class U>
  using Incoming = typename Lines::Incoming[kRanks][U::kCount];

  // --- Steps ---

  // To every other rank its block, the next one's first. What is moved within this rank, or by the root of a broadcast,
  // is kept here as well.
  GC_DEV void send_blocks(const PairChunk& chunk, uint64_t step) const {
    GC_NO_UNROLL
    for (uint32_t hops = kReduces ? 1 : 0; hops < n_; ++hops) {
      const uint32_t to = after(rank_, hops);
      const uint32_t bytes = steps_.first(rank_, to) ? bytes_of(chunk, to) : 0;
      const uint8_t* const from = input_ + offset_of(chunk, to, steps_.sends_blocks);
      uint8_t* const output = output_ + offset_of(chunk, to, steps_.receives_blocks);
      const bool keeps = !kReduces && from != output && (hops == 0 || (steps_.cuts && bytes != 0));
      each(bytes, bytes, [&](auto units) {
        Packs<decltype(units)> packs;
        read(units, from, bytes, packs);
        if (keeps) write(units, output, bytes, packs);
        if (hops > 0) store(units, area(to, step, rank_), packs, step);
        return true;
      });
    }
  }

  // Makes this rank's block of what all have sent of it in a step, hands it on in the next one and keeps it, as the
  // function wants.
  GC_DEV bool combine_block(const PairChunk& chunk, uint64_t step) const {
    const uint32_t bytes = bytes_of(chunk, rank_);
    const uint8_t* const own = input_ + offset_of(chunk, rank_, steps_.sends_blocks);
    uint8_t* const output = output_ + offset_of(chunk, rank_, steps_.receives_blocks);
    const bool keeps = !steps_.hands_on || steps_.second(rank_);
    return each(bytes, bytes, [&](auto units) {
      Packs<decltype(units)> result;
      if (!combine(units, step, own, bytes, result)) return false;
      if (steps_.hands_on) hand_on(units, step + 1, bytes, result);
      if (keeps) write(units, output, bytes, result);
      return true;
    });
  }
  template <class U>
  GC_DEV bool combine(U units, uint64_t step, const uint8_t* own, uint32_t bytes, Packs<U>& result) const {
    Packs<U> mine{};
    if constexpr (kReduces) read(units, own, bytes, mine);
    bool is_first = true;
    GC_NO_UNROLL
    for (uint32_t base = 0; base < n_; base += kRanks) {
      Incoming<U> in{};
      if (!receive(units, base, step, in, [&](uint32_t from) { return steps_.first(from, rank_) ? bytes : 0; }))
        return false;
      GC_UNROLL
      for (uint32_t k = 0; k < kRanks; ++k) {
        const uint32_t from = base + k;
        if (from >= n_ || !steps_.first(from, rank_)) continue;
        each_part(units, [&](int u, int i, const LinePart&) {
          Pack x = Lines::data(in[k][u], i);
          if constexpr (kReduces) {
            if (from == rank_) x = mine[u][i];
            if (!is_first) x = Unit::apply(result[u][i], x);
          }
          result[u][i] = x;
        });
        is_first = false;
      }
    }
    if constexpr (kReduces)
      each_part(units, [&](int u, int i, const LinePart&) { result[u][i] = Unit::post(result[u][i], reduction_); });
    return true;
  }
  template <class U>
  GC_DEV void hand_on(U units, uint64_t step, uint32_t bytes, const Packs<U>& packs) const {
    GC_NO_UNROLL
    for (uint32_t hops = 1; hops < n_; ++hops) {
      const uint32_t to = after(rank_, hops);
      store(those_of(units, steps_.second(to) ? bytes : 0), area(to, step, rank_), packs, step);
    }
  }

  // Keeps what all others have sent of their own blocks in the function's last step.
  GC_DEV bool keep_blocks(const PairChunk& chunk, uint64_t step) const {
    const auto bytes_from = [&](uint32_t from) {
      const bool has_data = steps_.hands_on ? steps_.second(rank_) : steps_.first(from, rank_);
      return has_data ? bytes_of(chunk, from) : 0;
    };
    uint32_t least = chunk.block, most = 0;
    GC_NO_UNROLL
    for (uint32_t from = 0; from < n_; ++from) {
      const uint32_t bytes = from != rank_ ? bytes_from(from) : 0;
      if (bytes != 0 && bytes < least) least = bytes;
      if (bytes > most) most = bytes;
    }
    return each(least < most ? least : most, most, [&](auto units) {
      GC_NO_UNROLL
      for (uint32_t base = 0; base < n_; base += kRanks) {
        Incoming<decltype(units)> in{};
        if (!receive(units, base, step, in, bytes_from)) return false;
        GC_UNROLL
        for (uint32_t k = 0; k < kRanks; ++k) {
          const uint32_t from = base + k, bytes = is_other(from) ? bytes_from(from) : 0;
          if (bytes == 0) continue;
          Packs<decltype(units)> packs;
          each_part(units, [&](int u, int i, const LinePart&) { packs[u][i] = Lines::data(in[k][u], i); });
          write(units, output_ + offset_of(chunk, from, steps_.receives_blocks), bytes, packs);
        }
      }
      return true;
    });
  }

  // --- Where blocks lie ---

  GC_DEV uint32_t after(uint32_t rank, uint32_t hops) const {
    return rank + hops < n_ ? rank + hops : rank + hops - n_;
  }
  // Among the blocks of a vector: ranks in order, of a broadcast from the one after the root.
  GC_DEV uint32_t place_of(uint32_t rank) const {
    return rank >= first_rank_ ? rank - first_rank_ : rank + n_ - first_rank_;
  }
  GC_DEV PairChunk chunk_at(uint64_t first) const {
    if (first >= end_) return {end_, end_, 0};
    const uint64_t left = end_ - first, parts = steps_.cuts ? places_ : 1;
    const uint64_t elements = round_chunk(left / sizeof(T), sizeof(T), static_cast<uint32_t>(parts), most_ / sizeof(T));
    const uint64_t block = elements * sizeof(T), all = block * parts;
    const uint64_t bytes = steps_.cuts || block < left ? block : left;
    return {first, first + (all < left ? all : left), static_cast<uint32_t>(bytes)};
  }
  GC_DEV bool is_there(const PairChunk& chunk) const { return chunk.first < end_; }
  // by_rank: the buffer has a block for each rank.
  GC_DEV uint64_t offset_of(const PairChunk& chunk, uint32_t rank, bool by_rank) const {
    const uint64_t stride = steps_.cuts ? chunk.block : by_rank ? stride_ : 0;
    return chunk.first + place_of(rank) * stride;
  }
  GC_DEV uint32_t bytes_of(const PairChunk& chunk, uint32_t rank) const {
    if (!steps_.cuts) return chunk.block;
    const uint32_t from = place_of(rank) * chunk.block, all = static_cast<uint32_t>(chunk.end - chunk.first);
    const uint32_t left = from < all ? all - from : 0;
    return left < chunk.block ? left : chunk.block;
  }
  GC_DEV bool is_aligned() const {
    const uintptr_t ends = reinterpret_cast<uintptr_t>(input_) | reinterpret_cast<uintptr_t>(output_);
    return !proto::kPadded<T> && kWholePacks && (ends | (steps_.cuts ? 0 : stride_)) % sizeof(Pack) == 0;
  }
  static GC_DEV uint32_t most_of(const proto::CollectiveItem& item) {
    return item.chunk_bytes >= 128 && item.chunk_bytes < kAreaData ? item.chunk_bytes / 128 * 128 : kAreaData;
  }
  static GC_DEV proto::Reduction reduction_of_item(const Work& work) {
    if constexpr (kReduces) return reduction_of<T>(work.item, work.op);
    return {};
  }

  // --- Units ---

  GC_DEV uint8_t* area(uint32_t of, uint64_t step, uint32_t source) const {
    return ends_->lines[of] + proto::line_area_offset(n_, channel_, step, source);
  }
  // Calls body(units) for this worker's units of blocks of `most` bytes, several at a time where all blocks have them
  // whole; for its first one always, if of nothing. False once the body says so.
  template <class Body>
  GC_DEV bool each(uint32_t least, uint32_t most, const Body& body) const {
    const uint32_t whole = aligned_ || !kWholePacks ? least / Lines::kUnitBytes : 0;
    uint32_t unit = worker_;
    GC_NO_UNROLL
    for (; unit < whole; unit += kUnits * workers_) {
      if (!body(Units<kUnits, kWholePacks>{unit, whole})) return false;
    }
    for (unit = worker_; unit < whole;) unit += workers_;
    GC_NO_UNROLL
    for (; has_unit(most, unit); unit += workers_) {
      if (!body(Units<1, false>{unit, unit + 1})) return false;
    }
    return true;
  }
  // Whether a block of so many bytes has this unit; the first one of a worker is there in any case.
  GC_DEV bool has_unit(uint32_t bytes, uint32_t unit) const {
#if GC_MUTANT == 14  // who has nothing keeps silent
    return unit * Lines::kUnitBytes < bytes;
#else
    return unit * Lines::kUnitBytes < bytes || unit == worker_;
#endif
  }
  // Those of the units that are sent of a block of so many bytes: all of them, or what stands for nothing.
  template <class U>
  GC_DEV U those_of(U units, uint32_t bytes) const {
    if (units.first * Lines::kUnitBytes < bytes) return units;
    return {units.first, has_unit(bytes, units.first) ? units.first + 1 : 0};
  }
  template <class U, class Body>
  GC_DEV void each_unit(U units, const Body& f) const {
    GC_UNROLL
    for (int u = 0; u < U::kCount; ++u) {
      const uint32_t unit = units.first + static_cast<uint32_t>(u) * workers_;
      if (unit < units.end) f(u, unit);
    }
  }
  // Calls f(u, i, place of part i of unit u in the block).
  template <class U, class Body>
  GC_DEV void each_part(U units, const Body& f) const {
    each_unit(units, [&](int u, uint32_t unit) {
      GC_UNROLL
      for (int i = 0; i < Lines::kParts; ++i) f(u, i, Lines::part(unit, lane_, i));
    });
  }
  // The user's data, ready to be sent and reduced.
  template <class U>
  GC_DEV void read(U units, const uint8_t* block, uint32_t bytes, Packs<U>& packs) const {
    each_part(units, [&](int u, int i, const LinePart& part) {
      Pack pack{};
      if constexpr (U::kWhole)
        pack = proto::read_whole(block + part.offset, part.bytes);
      else if (part.offset < bytes)
        pack = proto::read_fast<T>(block + part.offset, data_bytes(part, bytes));
      if constexpr (kReduces) pack = Unit::pre(pack, reduction_);
      packs[u][i] = pack;
    });
  }
  template <class U>
  GC_DEV void write(U units, uint8_t* block, uint32_t bytes, const Packs<U>& packs) const {
    each_part(units, [&](int u, int i, const LinePart& part) {
      if constexpr (U::kWhole)
        proto::write_whole(block + part.offset, packs[u][i], part.bytes);
      else if (part.offset < bytes)
        proto::write_fast<T>(block + part.offset, packs[u][i], data_bytes(part, bytes));
    });
  }
  static GC_DEV uint32_t data_bytes(const LinePart& part, uint32_t bytes) {
    return bytes - part.offset < part.bytes ? bytes - part.offset : part.bytes;
  }

  template <class U>
  GC_DEV void store(U units, uint8_t* lines, const Packs<U>& packs, uint64_t step) const {
    each_unit(units, [&](int u, uint32_t unit) { lines_.store(lines, unit, lane_, packs[u], proto::flag_of(step)); });
  }
  // What other ranks from `base` on have sent of these units in the step: all loads of a turn come before the first
  // look at what they brought. bytes_from(rank): of its block. False once the fault latch is set.
  template <class U, class BytesFrom>
  GC_DEV bool receive(U units, uint32_t base, uint64_t step, Incoming<U>& in, const BytesFrom& bytes_from) const {
    const uint8_t* const lines = area(rank_, step, base);
    uint32_t end[kRanks];
    GC_UNROLL
    for (uint32_t k = 0; k < kRanks; ++k) end[k] = is_other(base + k) ? those_of(units, bytes_from(base + k)).end : 0;
    const auto each_awaited = [&](const auto& f) {
      GC_UNROLL
      for (uint32_t k = 0; k < kRanks; ++k) {
        if (end[k] != 0) each_unit(U{units.first, end[k]}, [&](int u, uint32_t unit) { f(k, u, unit); });
      }
    };
    for (uint32_t turn = 1;; ++turn) {
      each_awaited([&](uint32_t k, int u, uint32_t unit) {
        in[k][u] = lines_.load(lines + k * proto::kLineAreaBytes, unit, lane_);
      });
      bool missing = false;
      each_awaited(
          [&](uint32_t k, int u, uint32_t) { missing |= !Lines::arrived(in[k][u], lane_, proto::flag_of(step)); });
      if (!Lines::any(missing)) return true;
      if (turn % proto::kLatchPeriod == 0 && Lines::any(proto::load_relaxed(&latch_->abort) != 0)) return false;
      proto::pause();
    }
  }
  GC_DEV bool is_other(uint32_t rank) const { return rank < n_ && rank != rank_; }

  const uint32_t n_, rank_, channel_;
  const proto::FaultLatch* const latch_;
  const proto::LineMeshEnds* const ends_;
  const PairSteps steps_;
  const uint32_t first_rank_, places_;  // of the blocks of a vector
  uint64_t step_;
  const uint8_t* const input_;
  uint8_t* const output_;
  const uint64_t stride_;       // of blocks by rank
  const uint64_t first_, end_;  // the channel's share of a vector, or of each block
  const uint32_t most_;         // bytes of a block in one step
  const bool aligned_;
  const proto::Reduction reduction_;
  const Lines lines_;
  const uint32_t worker_, workers_;  // warps, and which
  const uint32_t lane_;
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

template <class Block>
struct AllPairsVisitor {
  const Block& block;
  const Work& work;
  proto::Function function;
  template <class Red>
  GC_DEV void visit() const {
    all_pairs<Red>(block, work, function);
  }
};

// The family's reduction, where the function has one.
template <class Family, class Block>
GC_DEV void run_all_pairs(const Block& block, proto::Function function, const Work& work) {
  using proto::Function;
  const bool reduces =
      function == Function::all_reduce || function == Function::reduce || function == Function::reduce_scatter;
  if (!reduces) return all_pairs<proto::CopyOf<uint8_t>>(block, work, function);
  if constexpr (Family::kOps != 0) Family::choose(work.op, AllPairsVisitor<Block>{block, work, function});
}

}  // namespace gpucoll::coll::device
