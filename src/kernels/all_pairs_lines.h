// How blocks go through the areas of a line mesh: units of lines (proto/ll128.h), each of which one worker, a warp on
// GPUs, moves in all steps of an operation. See format/line_mesh.h for why no worker waits for anything but lines.
//
// Thread safety: all threads of a worker call alike. Ownership: none.
#pragma once
#include "kernels/work.h"
#include "proto/format/line_mesh.h"
#include "proto/line_parts.h"
#include "proto/ll128.h"

namespace gpucoll::coll::device {

// Red: the reduction, whose hook `pre` is applied to what is read, or CopyOf.
template <class Red>
class PairLines {
  using Lines = proto::Ll128Lines<(sizeof(typename Red::Element) <= 8)>;

 public:
  using Pack = proto::Pack;
  using LinePart = proto::LinePart;
  static constexpr bool kReduces = !proto::kCopies<Red>;
  // Bytes of data in an area, whole lines.
  static constexpr uint32_t kAreaData =
      proto::kLineAreaBytes / (Lines::kLines * proto::kLl128LineBytes) * Lines::kUnitBytes / 128 * 128;
  // Else parts begin anywhere, as on the emulated device.
  static constexpr bool kWholePacks = Lines::kUnitBytes % sizeof(Pack) == 0;
  // Units of a worker, and ranks, whose lines are on their way at the same time: as many as there are registers for.
  static constexpr int kUnits = kReduces ? 2 : 4;
  static constexpr uint32_t kRanks = 2;

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

  // aligned: all blocks are, to 16 bytes.
  GC_DEV PairLines(proto::Lane lane, const Work& work, const proto::Reduction& reduction, bool aligned)
      : n_(static_cast<uint32_t>(work.comm.n_ranks)),
        rank_(static_cast<uint32_t>(work.comm.rank)),
        channel_(work.channel),
        latch_(work.comm.latch),
        ends_(work.comm.line_mesh),
        reduction_(reduction),
        aligned_(!proto::kPadded<T> && kWholePacks && aligned),
        lines_(work.shape()),
        worker_(lane.rank / Lines::kThreads),
        workers_(lane.size / Lines::kThreads),
        lane_(lane.rank % Lines::kThreads) {}

  // How many steps have been taken before the operation.
  GC_DEV uint64_t steps_taken() const { return ends_->step; }

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
      if constexpr (kReduces) pack = proto::PackUnit<Red>::pre(pack, reduction_);
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
  // Into rank `to`'s area. bytes: of the block.
  template <class U>
  GC_DEV void store(U units, uint32_t to, uint64_t step, uint32_t bytes, const Packs<U>& packs) const {
    uint8_t* const lines = area(to, step, rank_);
    each_unit(those_of(units, bytes),
              [&](int u, uint32_t unit) { lines_.store(lines, unit, lane_, packs[u], proto::flag_of(step)); });
  }
  // Receives what other ranks from `base` on have sent of these units in the step. All loads of a turn come before the
  // first look at what they brought. bytes_from(rank): the bytes of its block. Returns false once the fault latch is
  // set.
  template <class U, class BytesFrom>
  GC_DEV bool receive(U units, uint32_t base, uint64_t step, Incoming<U>& in, const BytesFrom& bytes_from) const {
    const uint8_t* const lines = area(rank_, step, base);
    uint32_t end[kRanks];
    GC_UNROLL
    for (uint32_t k = 0; k < kRanks; ++k)
      end[k] = base + k < n_ && base + k != rank_ ? those_of(units, bytes_from(base + k)).end : 0;
    const auto each_awaited = [&](const auto& f) {
      GC_UNROLL
      for (uint32_t k = 0; k < kRanks; ++k) {
        if (end[k] != 0) each_unit(U{units.first, end[k]}, [&](int u, uint32_t unit) { f(k, u, unit); });
      }
    };
    for (uint32_t turn = proto::first_turn();; ++turn) {
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
  // Returns the pack that rank base + k has sent in part i of unit u.
  template <class U>
  static GC_DEV Pack data(const Incoming<U>& in, uint32_t k, int u, int i) {
    return Lines::data(in[k][u], i);
  }

 private:
  using T = typename Red::Element;

  GC_DEV uint8_t* area(uint32_t of, uint64_t step, uint32_t source) const {
    if (proto::kMutant == 15) step %= 2;  // stores where a rank may still read
    return ends_->lines[of] + proto::line_area_offset(n_, channel_, step, source);
  }
  // Returns whether a block of so many bytes has this unit; the first one of a worker is there in any case.
  GC_DEV bool has_unit(uint32_t bytes, uint32_t unit) const {
    if (proto::kMutant == 14) return unit * Lines::kUnitBytes < bytes;  // who has nothing keeps silent
    return unit * Lines::kUnitBytes < bytes || unit == worker_;
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
  static GC_DEV uint32_t data_bytes(const LinePart& part, uint32_t bytes) {
    return bytes - part.offset < part.bytes ? bytes - part.offset : part.bytes;
  }

  const uint32_t n_, rank_, channel_;
  const proto::FaultLatch* const latch_;
  const proto::LineMeshEnds* const ends_;
  const proto::Reduction reduction_;
  const bool aligned_;
  const Lines lines_;
  const uint32_t worker_, workers_;  // warps, and which
  const uint32_t lane_;
};

}  // namespace gpucoll::coll::device
