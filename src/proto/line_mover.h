// The inner loop of the protocols whose data carry their own news (LL, LL128): each thread takes its own units from the
// input to the lines it sends, from the lines it awaits to the output, and meets nobody on the way.
//
//   own operand (loaded early) -> lines of the peers, once they have arrived -> reduce -> lines onward, output
//
// Lines (LlLines, Ll128Lines) says what a unit is, which threads share it and how its lines are stored and loaded.
// Compiled once for each reduction and kind of line, whatever the operation: the choice is made outside of it
// (line_primitives.h).
//
// Thread safety: all threads of a group call it alike, but for their own lane and counters. An element is read and
// written by one thread, the same for all operations on equally many elements; it reads before it writes, so that
// input and output may be equal. Invariant: threads that share a unit take the same way through every loop.
#pragma once
#include "proto/line_parts.h"
#include "proto/line_work.h"
#include "proto/ll.h"

namespace gpucoll::proto {

// kMessage: the first step of one; REQUIRES then that it is all there is to do.
template <class Red, class Lines, class F, bool kMessage>
class LineMover {
 public:
  GC_DEV LineMover(Lane lane, const ConnectionShape& shape, const LineEnds<F>& ends, const LineWork& work,
                   const Reduction& reduction, FaultLatch* latch)
      : lines_(shape),
        step_bytes_(Lines::step_bytes(shape)),
        n_in_(work.receives ? ends.n_in : 0),
        n_out_(work.sends ? ends.n_out : 0),
        work_(work),
        reduction_(reduction),
        latch_(latch),
        worker_(lane.rank / Lines::kThreads),
        workers_(lane.size / Lines::kThreads),
        lane_(lane.rank % Lines::kThreads) {
    // Also those that take no part: what may be left unset, compilers keep in memory.
    GC_UNROLL
    for (int p = 0; p < kMaxIn; ++p) in_[p] = ends.in[p];
    GC_UNROLL
    for (int p = 0; p < kMaxOut; ++p) out_[p] = ends.out[p];
  }
  // Tells the ends how far they have come.
  GC_DEV void close(LineEnds<F>& ends) const {
    each_in([&](int p) { ends.in[p].step = in_[p].step; });
    each_out([&](int p) {
      ends.out[p].step = out_[p].step;
      ends.out[p].seen = out_[p].seen;
    });
  }

  // False on all threads that share units when the latch is set, or the sizes of a message do not agree.
  GC_DEV bool run() {
    uint32_t left = work_.bytes + kLead;
    for (;; left -= step_bytes_, work_.input += step_bytes_, work_.output += step_bytes_) {
      if (!wait_for_room()) return false;
      bytes_ = left < step_bytes_ ? left : step_bytes_;
      if (!move_step()) return false;
      each_in([&](int p) { ++in_[p].step; });
      each_out([&](int p) { ++out_[p].step; });
      if (left <= step_bytes_) return !Lines::any(mismatch_);
    }
  }

 private:
  using T = typename Red::Element;
  static constexpr int kMaxIn = F::kRecv > 1 && !kCopies<Red> ? F::kRecv : 1, kMaxOut = F::kSend > 0 ? F::kSend : 1;
  static constexpr uint32_t kLead = kMessage ? kLeadBytes : 0;
  // Units of one thread, or warp, that are on their way together: unit u is first + u * workers_. kWhole: whole ones,
  // at aligned addresses.
  template <int kUnits_, bool kWhole_>
  struct Batch {
    static constexpr int kUnits = kUnits_;
    static constexpr bool kWhole = kWhole_;
    uint32_t first;
    Pack part[kUnits][Lines::kParts];
  };

  // f(p) for each peer that takes part.
  template <class Body>
  GC_DEV void each_in(const Body& f) const {
    if (n_in_ > 0) each_of_some(f);
  }
  // REQUIRES: there is one.
  template <class Body>
  GC_DEV void each_of_some(const Body& f) const {
    GC_UNROLL
    for (int p = 0; p < kMaxIn; ++p) {
      if (p == 0 || p < n_in_) f(p);
    }
  }
  template <class Body>
  GC_DEV void each_out(const Body& f) const {
    GC_UNROLL
    for (int p = 0; p < kMaxOut; ++p) {
      if (p < n_out_) f(p);
    }
  }

  GC_DEV bool move_step() {
    each_in([&](int p) { from_[p] = lines_.slot(in_[p].slots, in_[p].step); });
    each_out([&](int p) { to_[p] = lines_.slot(out_[p].slots, out_[p].step); });
    const uint32_t units = (bytes_ + Lines::kUnitBytes - 1) / Lines::kUnitBytes;
    uint32_t unit = worker_;
    if constexpr (!kPadded<T>) {
      const uint32_t whole = is_aligned() ? bytes_ / Lines::kUnitBytes : 0;
      if constexpr (Lines::kUnroll > 1 && !kMessage) {
        for (; unit + (Lines::kUnroll - 1) * workers_ < whole; unit += Lines::kUnroll * workers_) {
          if (!move_units(Batch<Lines::kUnroll, true>{unit, {}})) return false;
        }
      }
      for (; unit < whole; unit += workers_) {
        if (!move_units(Batch<1, true>{unit, {}})) return false;
      }
    }
    for (; unit < units; unit += workers_) {
      if (!move_units(Batch<1, false>{unit, {}})) return false;
    }
    return true;
  }
  GC_DEV bool is_aligned() const {
    const uintptr_t input = work_.reads ? reinterpret_cast<uintptr_t>(work_.input) : 0;
    const bool writes = work_.writes || work_.keeps_received;
    const uintptr_t output = writes ? reinterpret_cast<uintptr_t>(work_.output) : 0;
    return (input | output) % sizeof(Pack) == 0 && Lines::kUnitBytes % sizeof(Pack) == 0;
  }

  template <class Batch>
  GC_DEV bool move_units(Batch batch) {
    if (work_.reads) read(batch);
    if (n_in_ > 0 && !receive(batch)) return false;
    if (work_.complete) complete(batch);
    if (n_out_ > 0) send(batch);
    if (work_.writes) write(batch);
    return true;
  }

  // Calls f(u, i, place of part i of unit u in the step).
  template <class Batch, class Body>
  GC_DEV void each_part(const Batch& batch, const Body& f) const {
    GC_UNROLL
    for (int u = 0; u < Batch::kUnits; ++u) {
      GC_UNROLL
      for (int i = 0; i < Lines::kParts; ++i) f(u, i, Lines::part(unit(batch.first, u), lane_, i));
    }
  }
  GC_DEV uint32_t unit(uint32_t first, int u) const { return first + static_cast<uint32_t>(u) * workers_; }
  // How many bytes of a part are data.
  GC_DEV uint32_t data_bytes(const LinePart& part) const {
    const uint32_t left = bytes_ > part.offset ? bytes_ - part.offset : 0;
    return left < part.bytes ? left : part.bytes;
  }
  GC_DEV bool is_lead(const LinePart& part) const { return kMessage && part.offset == 0; }
  // Where in the user's memory: behind the lead.
  GC_DEV const uint8_t* source(const LinePart& part) const { return work_.input + part.offset - kLead; }
  GC_DEV uint8_t* target(const LinePart& part) const { return work_.output + part.offset - kLead; }

  template <class Batch>
  GC_DEV void read(Batch& batch) const {
    each_part(batch, [&](int u, int i, const LinePart& part) {
      Pack pack{};
      if (is_lead(part)) {
        pack = __builtin_bit_cast(Pack, WordPair{work_.message.bytes, 0});
      } else if constexpr (Batch::kWhole) {
        pack = read_whole(source(part), part.bytes);
      } else if (const uint32_t n = data_bytes(part); n > 0) {
        pack = read_rest<T>(source(part), n);
      }
      if constexpr (!kCopies<Red>) pack = PackUnit<Red>::pre(pack, reduction_);
      batch.part[u][i] = pack;
    });
  }
  template <class Batch>
  GC_DEV void write(const Batch& batch) {
    each_part(batch, [&](int u, int i, const LinePart& part) {
      const Pack& pack = batch.part[u][i];
      if (is_lead(part))
        look_at_lead(pack);
      else
        write_part<Batch::kWhole>(part, pack);
    });
  }
  template <bool kWhole>
  GC_DEV void write_part(const LinePart& part, const Pack& pack) const {
    if constexpr (kWhole) {
      write_whole(target(part), pack, part.bytes);
    } else if (const uint32_t n = data_bytes(part); n > 0) {
      write_rest<T>(target(part), pack, n);
    }
  }
  template <class Batch>
  GC_DEV void complete(Batch& batch) const {
    if constexpr (!kCopies<Red>) {
      each_part(batch, [&](int u, int i, const LinePart&) {
        batch.part[u][i] = PackUnit<Red>::post(batch.part[u][i], reduction_);
      });
    }
  }

  GC_DEV void look_at_lead(const Pack& pack) {
    const uint64_t sent = __builtin_bit_cast(WordPair, pack).first;
    if (sent == work_.message.bytes) return;
    report_sizes(latch_, work_.message, sent);
    mismatch_ = true;
  }

  // The lines that came: in[p][u] are those of unit u from peer p.
  template <class Batch>
  using Incoming = typename Lines::Incoming[kMaxIn][Batch::kUnits];

  // Waits for the lines of all peers, and reduces what they bring.
  template <class Batch>
  GC_DEV bool receive(Batch& batch) {
    Incoming<Batch> in{};
    for (uint32_t turn = first_turn(); !load_lines(batch, in); ++turn) {
      if (turn % kLatchPeriod == 0 && Lines::any(give_up())) return false;
      pause();
    }
    each_part(batch, [&](int u, int i, const LinePart& part) {
      Pack sum = Lines::data(in[0][u], i);
      if constexpr (!kCopies<Red>) {
        if (work_.keeps_received) write_part<Batch::kWhole>(part, sum);
        if constexpr (kMaxIn > 1) {
          if (n_in_ > 1) sum = PackUnit<Red>::apply(sum, Lines::data(in[kMaxIn - 1][u], i));
        }
        if (work_.reads) sum = PackUnit<Red>::apply(sum, batch.part[u][i]);
      }
      batch.part[u][i] = sum;
    });
    return true;
  }
  // True when all have arrived. All loads come before the first look at what they brought.
  template <class Batch>
  GC_DEV bool load_lines(const Batch& batch, Incoming<Batch>& in) const {
    each_of_some([&](int p) {
      GC_UNROLL
      for (int u = 0; u < Batch::kUnits; ++u) in[p][u] = lines_.load(from_[p], unit(batch.first, u), lane_);
    });
    bool missing = false;
    each_of_some([&](int p) {
      GC_UNROLL
      for (int u = 0; u < Batch::kUnits; ++u) missing |= !Lines::arrived(in[p][u], lane_, flag_of(in_[p].step));
    });
    return !Lines::any(missing);
  }

  template <class Batch>
  GC_DEV void send(const Batch& batch) const {
    each_out([&](int p) {
      GC_UNROLL
      for (int u = 0; u < Batch::kUnits; ++u) {
        lines_.store(to_[p], unit(batch.first, u), lane_, batch.part[u], flag_of(out_[p].step));
      }
    });
  }

  // Until the slots of this step have been read by the receivers. The load pairs with the store of head in
  // line_primitives.h and primitives.h. Differences only are compared: the counters may wrap.
  GC_DEV bool wait_for_room() {
    bool ok = true;
    each_out([&](int p) {
      const uint64_t goal = out_[p].step + 1 - kSteps;
      if (Lines::any(static_cast<int64_t>(out_[p].seen - goal) < 0)) ok = ok && wait_for_head(out_[p], goal);
    });
    return ok;
  }
  GC_DEV bool wait_for_head(LineEnd& end, uint64_t goal) {
    for (uint32_t turn = first_turn();; ++turn) {
      end.seen = load_before_stores(end.head);
      if (!Lines::any(static_cast<int64_t>(end.seen - goal) < 0)) return true;
      if (turn % kLatchPeriod == 0 && Lines::any(latched())) return false;
      pause();
    }
  }

  GC_DEV bool latched() const { return load_relaxed(&latch_->abort) != 0; }
  // A message whose lines do not come may have been sent by another protocol, since it has another length.
  GC_DEV bool give_up() const {
    if (latched()) return true;
    if constexpr (!kMessage) return false;
    return worker_ == 0 && lane_ == 0 && !sizes_agree(latch_, in_[0].receive, in_[0].step, work_.message);
  }

  const Lines lines_;
  const uint32_t step_bytes_;
  const int n_in_, n_out_;
  LineWork work_;
  const Reduction reduction_;
  FaultLatch* const latch_;
  const uint32_t worker_, workers_;  // among those who take units: threads, or warps
  const uint32_t lane_;              // among the threads that share a unit
  LineEnd in_[kMaxIn], out_[kMaxOut];
  const uint8_t* from_[kMaxIn] = {};  // the slots of this step
  uint8_t* to_[kMaxOut] = {};
  uint32_t bytes_ = 0;  // in this step, with the lead
  bool mismatch_ = false;
};

template <class Red, class Lines, class F, bool kMessage>
GC_NOINLINE bool move_lines(Lane lane, const ConnectionShape& shape, LineEnds<F>& ends, const LineWork& work,
                            const Reduction& reduction, FaultLatch* latch) {
  LineMover<Red, Lines, F, kMessage> mover(lane, shape, ends, work, reduction, latch);
  const bool moved = mover.run();
  mover.close(ends);
  return moved;
}

}  // namespace gpucoll::proto
