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
        root_(work.item.root),
        channel_(work.channel),
        latch_(work.comm.latch),
        ends_(work.comm.line_mesh),
        steps_(pair_steps(function, root_)),
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
  GC_DEV uint64_t run() {
    PairChunk chunk = chunk_at(first_);
    for (send_blocks(chunk, step_); chunk.first < end_;) {
      const PairChunk next = chunk_at(chunk.end);
      const bool ok = steps_.hands_on ? take_two_steps(chunk, next) : take_step(chunk, next);
      if (!ok) break;
      chunk = next;
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
  // Else units begin anywhere, as on the emulated device.
  static constexpr bool kWholePacks = Lines::kUnitBytes % sizeof(Pack) == 0;
  // Ranks, and units, whose lines are on their way at the same time.
  static constexpr uint32_t kRanks = 4, kUnits = 2;

  // Units first + i * workers_, i < kCount, of one worker. kWhole: all of their bytes are data, at aligned addresses.
  template <int kCount_, bool kWhole_>
  struct Units {
    static constexpr int kCount = kCount_;
    static constexpr bool kWhole = kWhole_;
    uint32_t first;
  };
  template <class U>
  using Packs = Pack[U::kCount][Lines::kParts];
  template <class U>
  using Incoming = typename Lines::Incoming[kRanks][U::kCount];

  // --- Steps ---

  GC_DEV bool take_step(const PairChunk& chunk, const PairChunk& next) {
    if (next.first < end_) send_blocks(next, step_ + 1);
    bool ok;
    if constexpr (kReduces) {
      ok = combine_block(chunk);
    } else {
      keep_own_block(chunk);
      ok = keep_blocks(chunk, step_, [&](uint32_t from) { return steps_.first(from, rank_); });
    }
    step_ += 1;
    return ok;
  }
  // The next chunk's blocks only once every rank has begun this operation: see format/line_mesh.h.
  GC_DEV bool take_two_steps(const PairChunk& chunk, const PairChunk& next) {
    if (!combine_block(chunk)) return false;
    if (next.first < end_) send_blocks(next, step_ + 2);
    const bool gets_any = steps_.second(rank_);
    const bool ok = keep_blocks(chunk, step_ + 1, [&](uint32_t) { return gets_any; });
    step_ += 2;
    return ok;
  }

  // To every other rank its block, the next one's first. The root of a broadcast keeps what it sends, too.
  GC_DEV void send_blocks(const PairChunk& chunk, uint64_t step) {
    const bool keeps = steps_.cuts && steps_.source == rank_ && output_ != input_;
    for (uint32_t hops = 1; hops < n_; ++hops) {
      const uint32_t to = after(hops);
      const uint32_t bytes = steps_.first(rank_, to) ? bytes_of(chunk, to) : 0;
      const uint64_t offset = offset_of(chunk, to, steps_.sends_blocks);
      uint8_t* const lines = area(to, step, rank_);
      each(bytes, bytes, [&](auto units) {
        Packs<decltype(units)> packs;
        read(units, input_ + offset, bytes, packs);
        if (keeps) write(units, output_ + offset, bytes, packs);
        store(units, lines, packs, step);
        return true;
      });
    }
  }

  // Makes this rank's block of what all have sent of it in this step, keeps it and hands it on in the next one, as the
  // function wants.
  GC_DEV bool combine_block(const PairChunk& chunk) {
    const uint32_t bytes = bytes_of(chunk, rank_);
    const uint8_t* const own = input_ + offset_of(chunk, rank_, steps_.sends_blocks);
    uint8_t* const output = output_ + offset_of(chunk, rank_, steps_.receives_blocks);
    const bool keeps = !steps_.hands_on || steps_.second(rank_);
    return each(bytes, bytes, [&](auto units) {
      Packs<decltype(units)> result{};
      if (!combine(units, own, bytes, result)) return false;
      if (keeps) write(units, output, bytes, result);
      if (steps_.hands_on) hand_on(units, bytes, result);
      return true;
    });
  }
  template <class U>
  GC_DEV bool combine(U units, const uint8_t* own, uint32_t bytes, Packs<U>& result) {
    Packs<U> mine{};
    if constexpr (kReduces) read(units, own, bytes, mine);
    bool is_first = true;
    for (uint32_t base = 0; base < n_; base += kRanks) {
      Incoming<U> in{};
      if (!receive(units, base, step_, in,
                   [&](uint32_t from, uint32_t unit) { return has_unit(steps_.first(from, rank_) ? bytes : 0, unit); }))
        return false;
      GC_UNROLL
      for (uint32_t k = 0; k < kRanks; ++k) {
        const uint32_t from = base + k;
        if (from >= n_ || !steps_.first(from, rank_)) continue;
        each_part(units, [&](int u, int i, const LinePart&) {
          const Pack x = from == rank_ ? mine[u][i] : Lines::data(in[k][u], i);
          if constexpr (kReduces)
            result[u][i] = is_first ? x : Unit::apply(result[u][i], x);
          else
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
  GC_DEV void hand_on(U units, uint32_t bytes, const Packs<U>& packs) {
    for (uint32_t hops = 1; hops < n_; ++hops) {
      const uint32_t to = after(hops);
      if (has_unit(steps_.second(to) ? bytes : 0, units.first))
        store(units, area(to, step_ + 1, rank_), packs, step_ + 1);
    }
  }

  // Keeps what all others have sent of their own blocks; has_data(rank): whether that one has any for this one.
  template <class HasData>
  GC_DEV bool keep_blocks(const PairChunk& chunk, uint64_t step, const HasData& has_data) {
    uint32_t least = chunk.block, most = 0;
    const auto bytes_from = [&](uint32_t from) { return has_data(from) ? bytes_of(chunk, from) : 0; };
    for (uint32_t from = 0; from < n_; ++from) {
      const uint32_t bytes = bytes_from(from);
      if (from == rank_ || bytes == 0) continue;
      if (bytes < least) least = bytes;
      if (bytes > most) most = bytes;
    }
    return each(least < most ? least : most, most, [&](auto units) {
      for (uint32_t base = 0; base < n_; base += kRanks) {
        Incoming<decltype(units)> in{};
        if (!receive(units, base, step, in,
                     [&](uint32_t from, uint32_t unit) { return has_unit(bytes_from(from), unit); }))
          return false;
        GC_UNROLL
        for (uint32_t k = 0; k < kRanks; ++k) {
          const uint32_t from = base + k;
          if (from >= n_ || from == rank_ || !has_data(from)) continue;
          Packs<decltype(units)> packs;
          each_part(units, [&](int u, int i, const LinePart&) { packs[u][i] = Lines::data(in[k][u], i); });
          write(units, output_ + offset_of(chunk, from, steps_.receives_blocks), bytes_from(from), packs);
        }
      }
      return true;
    });
  }
  // What is moved from this rank to itself, unless it is there.
  GC_DEV void keep_own_block(const PairChunk& chunk) {
    const uint8_t* const own = input_ + offset_of(chunk, rank_, steps_.sends_blocks);
    uint8_t* const output = output_ + offset_of(chunk, rank_, steps_.receives_blocks);
    if (!steps_.first(rank_, rank_) || own == output) return;
    each(chunk.block, chunk.block, [&](auto units) {
      Packs<decltype(units)> packs;
      read(units, own, chunk.block, packs);
      write(units, output, chunk.block, packs);
      return true;
    });
  }

  // --- Where blocks lie ---

  GC_DEV uint32_t after(uint32_t hops) const { return rank_ + hops < n_ ? rank_ + hops : rank_ + hops - n_; }
  // Among the blocks of a vector.
  GC_DEV uint32_t place_of(uint32_t rank) const {
    if (places_ == n_) return rank;
    return rank > root_ ? rank - root_ - 1 : rank + n_ - root_ - 1;
  }
  GC_DEV PairChunk chunk_at(uint64_t first) const {
    if (first >= end_) return {end_, end_, 0};
    const uint64_t left = end_ - first, parts = steps_.cuts ? places_ : 1;
    const uint64_t elements = round_chunk(left / sizeof(T), sizeof(T), static_cast<uint32_t>(parts), most_ / sizeof(T));
    const uint64_t block = elements * sizeof(T), all = block * parts;
    const uint64_t bytes = steps_.cuts || block < left ? block : left;
    return {first, first + (all < left ? all : left), static_cast<uint32_t>(bytes)};
  }
  // by_rank: the buffer has a block for each rank.
  GC_DEV uint64_t offset_of(const PairChunk& chunk, uint32_t rank, bool by_rank) const {
    if (steps_.cuts) return chunk.first + uint64_t{place_of(rank)} * chunk.block;
    return chunk.first + (by_rank ? rank * stride_ : 0);
  }
  GC_DEV uint32_t bytes_of(const PairChunk& chunk, uint32_t rank) const {
    if (!steps_.cuts) return chunk.block;
    const uint64_t from = offset_of(chunk, rank, false), left = from < chunk.end ? chunk.end - from : 0;
    return left < chunk.block ? static_cast<uint32_t>(left) : chunk.block;
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
  // whole; for its first one always. False once the body says so.
  template <class Body>
  GC_DEV bool each(uint32_t least, uint32_t most, const Body& body) const {
    const uint32_t whole = aligned_ || !kWholePacks ? least / Lines::kUnitBytes : 0;
    uint32_t unit = worker_;
    for (; unit + (kUnits - 1) * workers_ < whole; unit += kUnits * workers_) {
      if (!body(Units<kUnits, kWholePacks>{unit})) return false;
    }
    for (; has_unit(most, unit); unit += workers_) {
      if (!body(Units<1, false>{unit})) return false;
    }
    return true;
  }
  // Whether a block of so many bytes has this unit; the first one of a worker is there in any case.
  GC_DEV bool has_unit(uint32_t bytes, uint32_t unit) const {
#if GC_MUTANT == 14  // who has nothing keeps silent
    return uint64_t{unit} * Lines::kUnitBytes < bytes;
#else
    return uint64_t{unit} * Lines::kUnitBytes < bytes || unit == worker_;
#endif
  }
  // Calls f(u, i, place of part i of unit u in the block).
  template <class U, class Body>
  GC_DEV void each_part(U units, const Body& f) const {
    GC_UNROLL
    for (int u = 0; u < U::kCount; ++u) {
      GC_UNROLL
      for (int i = 0; i < Lines::kParts; ++i)
        f(u, i, Lines::part(units.first + static_cast<uint32_t>(u) * workers_, lane_, i));
    }
  }
  // The user's data, ready to be sent and reduced.
  template <class U>
  GC_DEV void read(U units, const uint8_t* block, uint32_t bytes, Packs<U>& packs) const {
    each_part(units, [&](int u, int i, const LinePart& part) {
      Pack pack{};
      if (U::kWhole || is_whole(part, bytes))
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
      if (U::kWhole || is_whole(part, bytes))
        proto::write_whole(block + part.offset, packs[u][i], part.bytes);
      else if (part.offset < bytes)
        proto::write_fast<T>(block + part.offset, packs[u][i], data_bytes(part, bytes));
    });
  }
  GC_DEV bool is_whole(const LinePart& part, uint32_t bytes) const {
    return aligned_ && part.offset + part.bytes <= bytes;
  }
  static GC_DEV uint32_t data_bytes(const LinePart& part, uint32_t bytes) {
    return bytes - part.offset < part.bytes ? bytes - part.offset : part.bytes;
  }

  template <class U>
  GC_DEV void store(U units, uint8_t* lines, const Packs<U>& packs, uint64_t step) const {
    GC_UNROLL
    for (int u = 0; u < U::kCount; ++u)
      lines_.store(lines, units.first + static_cast<uint32_t>(u) * workers_, lane_, packs[u], proto::flag_of(step));
  }
  // The lines that other ranks from `base` on have sent in the step: all loads of a turn come before the first look at
  // what they brought. awaits(rank, unit): whether it sends that. False once the fault latch is set.
  template <class U, class Awaits>
  GC_DEV bool receive(U units, uint32_t base, uint64_t step, Incoming<U>& in, const Awaits& awaits) const {
    const auto each_awaited = [&](const auto& f) {
      GC_UNROLL
      for (uint32_t k = 0; k < kRanks; ++k) {
        GC_UNROLL
        for (int u = 0; u < U::kCount; ++u) {
          const uint32_t unit = units.first + static_cast<uint32_t>(u) * workers_;
          if (base + k < n_ && base + k != rank_ && awaits(base + k, unit)) f(k, u, unit);
        }
      }
    };
    for (uint32_t turn = 1;; ++turn) {
      each_awaited(
          [&](uint32_t k, int u, uint32_t unit) { in[k][u] = lines_.load(area(rank_, step, base + k), unit, lane_); });
      bool missing = false;
      each_awaited(
          [&](uint32_t k, int u, uint32_t) { missing |= !Lines::arrived(in[k][u], lane_, proto::flag_of(step)); });
      if (!Lines::any(missing)) return true;
      if (turn % proto::kLatchPeriod == 0 && Lines::any(proto::load_relaxed(&latch_->abort) != 0)) return false;
      proto::pause();
    }
  }

  const uint32_t n_, rank_, root_, channel_;
  const proto::FaultLatch* const latch_;
  const proto::LineMeshEnds* const ends_;
  const PairSteps steps_;
  const uint32_t places_;  // blocks of a vector
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
