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
#include "proto/ll.h"
#include "proto/messages.h"
#include "proto/packs.h"

namespace gpucoll::proto {

inline constexpr int kMaxLinePeers = 2;  // to receive from, and to send to

// One end of a connection, as one thread knows it.
struct LineEnd {
  uint8_t* receive;  // the ReceiveBlock
  uint8_t* slots;
  uint64_t* head;
  uint64_t step;  // the next one
  uint64_t seen;  // of a sending end: a lower bound of head
};

// What is to be moved.
struct LineWork {
  const uint8_t* input;  // the own operand
  uint8_t* output;       // where the result is kept
  uint64_t bytes;
  bool reads, writes;  // whether there are these two
  bool complete;       // `post` applies to the result
  Message message;
};
// The peers that take part.
struct LinePeers {
  LineEnd* in;
  LineEnd* out;
  int n_in, n_out;
};

// In the first step of a message the first pack says how long all of it is.
inline constexpr uint32_t kLeadBytes = sizeof(Pack);

// What is only copied.
template <class T>
struct CopyOf {
  using Element = T;
};
template <class Red>
inline constexpr bool kCopies = false;
template <class T>
inline constexpr bool kCopies<CopyOf<T>> = true;

// A part of a unit in the user's memory: 16 bytes or 8 at an aligned address (bytes: which; 0: none), and n bytes at
// any.
GC_DEV Pack read_whole(const uint8_t* p, uint32_t bytes) {
  if (bytes == sizeof(Pack)) return load<Pack>(p);
  return __builtin_bit_cast(Pack, WordPair{bytes == 0 ? 0 : load<uint64_t>(p), 0});
}
GC_DEV void write_whole(uint8_t* p, const Pack& pack, uint32_t bytes) {
  if (bytes == sizeof(Pack)) return store(p, pack);
  if (bytes != 0) store(p, __builtin_bit_cast(WordPair, pack).first);
}
template <class T>
GC_DEV bool is_whole_part(const uint8_t* p, uint32_t n) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(p);
  return !kPadded<T> && ((n == sizeof(Pack) && address % sizeof(Pack) == 0) || (n == 8 && address % 8 == 0));
}
template <class T>
GC_DEV Pack read_part(const uint8_t* p, uint32_t n) {
  if (is_whole_part<T>(p, n)) return read_whole(p, n);
  if (sizeof(T) == 1 && n % 4 == 0 && reinterpret_cast<uintptr_t>(p) % 4 == 0) return read_pack<uint32_t>(p, n / 4);
  return read_pack<T>(p, n / sizeof(T));
}
template <class T>
GC_DEV void write_part(uint8_t* p, const Pack& pack, uint32_t n) {
  if (is_whole_part<T>(p, n)) return write_whole(p, pack, n);
  if (sizeof(T) == 1 && n % 4 == 0 && reinterpret_cast<uintptr_t>(p) % 4 == 0) {
    return write_pack<uint32_t>(p, pack, n / 4);
  }
  write_pack<T>(p, pack, n / sizeof(T));
}

// kMessage: the first step of one; REQUIRES then that it is all there is to do.
template <class Red, class Lines, bool kMessage>
class LineMover {
 public:
  GC_DEV LineMover(Lane lane, const Lines& lines, const LinePeers& peers, const LineWork& work,
                   const Reduction& reduction, FaultLatch* latch)
      : lines_(lines),
        peers_(peers),
        work_(work),
        reduction_(reduction),
        latch_(latch),
        worker_(lane.rank / Lines::kThreads),
        workers_(lane.size / Lines::kThreads),
        lane_(lane.rank % Lines::kThreads) {}

  // False on all threads that share units when the latch is set, or the sizes of a message do not agree.
  GC_DEV bool run(uint32_t step_bytes) {
    const uint64_t end = work_.bytes + kLead;
    uint64_t done = 0;
    do {
      if (!wait_for_room()) return false;
      at_ = done - kLead;
      bytes_ = static_cast<uint32_t>(end - done < step_bytes ? end - done : step_bytes);
      if (!move_step()) return false;
      for (int i = 0; i < peers_.n_in; ++i) ++peers_.in[i].step;
      for (int i = 0; i < peers_.n_out; ++i) ++peers_.out[i].step;
      done += step_bytes;
    } while (done < end);
    return !Lines::any(mismatch_);
  }

 private:
  using T = typename Red::Element;
  static constexpr int kMaxIn = kCopies<Red> ? 1 : kMaxLinePeers;
  static constexpr uint64_t kLead = kMessage ? kLeadBytes : 0;
  // Units of one thread, or warp, that are on their way together: unit u is first + u * workers_. kWhole: whole ones,
  // at aligned addresses.
  template <int kUnits_, bool kWhole_>
  struct Batch {
    static constexpr int kUnits = kUnits_;
    static constexpr bool kWhole = kWhole_;
    uint32_t first;
    Pack part[kUnits][Lines::kParts];
  };

  GC_DEV bool move_step() {
    const uint32_t units = (bytes_ + Lines::kUnitBytes - 1) / Lines::kUnitBytes;
    uint32_t unit = worker_;
    if constexpr (Lines::kUnroll > 1 && !kPadded<T> && !kMessage) {
      const uint32_t whole = is_aligned() ? bytes_ / Lines::kUnitBytes : 0;
      for (; unit + (Lines::kUnroll - 1) * workers_ < whole; unit += Lines::kUnroll * workers_) {
        if (!move_units(Batch<Lines::kUnroll, true>{unit, {}})) return false;
      }
    }
    for (; unit < units; unit += workers_) {
      if (!move_units(Batch<1, false>{unit, {}})) return false;
    }
    return true;
  }
  GC_DEV bool is_aligned() const {
    const uintptr_t input = work_.reads ? reinterpret_cast<uintptr_t>(work_.input) : 0;
    const uintptr_t output = work_.writes ? reinterpret_cast<uintptr_t>(work_.output) : 0;
    return (input + at_) % sizeof(Pack) == 0 && (output + at_) % sizeof(Pack) == 0 &&
           Lines::kUnitBytes % sizeof(Pack) == 0;
  }

  template <class Batch>
  GC_DEV bool move_units(Batch batch) {
    if (work_.reads) read(batch);
    if (peers_.n_in > 0 && !receive(batch)) return false;
    if (work_.complete) complete(batch);
    send(batch);
    if (work_.writes) write(batch);
    return true;
  }

  // Calls f(u, i, place of part i of unit u in the step).
  template <class Batch, class F>
  GC_DEV void each_part(const Batch& batch, const F& f) const {
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

  template <class Batch>
  GC_DEV void read(Batch& batch) const {
    each_part(batch, [&](int u, int i, const LinePart& part) {
      Pack pack{};
      if (is_lead(part)) {
        pack = __builtin_bit_cast(Pack, WordPair{work_.message.bytes, 0});
      } else if constexpr (Batch::kWhole) {
        pack = read_whole(work_.input + (at_ + part.offset), part.bytes);
      } else if (const uint32_t n = data_bytes(part); n > 0) {
        pack = read_part<T>(work_.input + (at_ + part.offset), n);
      }
      if constexpr (!kCopies<Red>) pack = PackUnit<Red>::pre(pack, reduction_);
      batch.part[u][i] = pack;
    });
  }
  template <class Batch>
  GC_DEV void write(const Batch& batch) {
    each_part(batch, [&](int u, int i, const LinePart& part) {
      const Pack& pack = batch.part[u][i];
      if (is_lead(part)) {
        look_at_lead(pack);
      } else if constexpr (Batch::kWhole) {
        write_whole(work_.output + (at_ + part.offset), pack, part.bytes);
      } else if (const uint32_t n = data_bytes(part); n > 0) {
        write_part<T>(work_.output + (at_ + part.offset), pack, n);
      }
    });
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

  // What came from peer p: in[p][u] are the lines of unit u.
  template <class Batch>
  using Incoming = typename Lines::Incoming[kMaxIn][Batch::kUnits];

  // Waits for the lines of all peers, and reduces what they bring.
  template <class Batch>
  GC_DEV bool receive(Batch& batch) {
    Incoming<Batch> in;
    for (uint32_t turn = 1; !load_lines(batch, in); ++turn) {
      if (turn % kLatchPeriod == 0 && Lines::any(give_up())) return false;
      pause();
    }
    each_part(batch, [&](int u, int i, const LinePart&) {
      Pack sum = Lines::data(in[0][u], i);
      if constexpr (!kCopies<Red>) {
        if (peers_.n_in > 1) sum = PackUnit<Red>::apply(sum, Lines::data(in[kMaxIn - 1][u], i));
        if (work_.reads) sum = PackUnit<Red>::apply(sum, batch.part[u][i]);
      }
      batch.part[u][i] = sum;
    });
    return true;
  }
  // True when all have arrived. All loads come before the first look at what they brought.
  template <class Batch>
  GC_DEV bool load_lines(const Batch& batch, Incoming<Batch>& in) const {
    GC_UNROLL
    for (int p = 0; p < kMaxIn; ++p) {
      if (p > 0 && p >= peers_.n_in) break;
      const uint8_t* const slot = lines_.slot(peers_.in[p].slots, peers_.in[p].step);
      GC_UNROLL
      for (int u = 0; u < Batch::kUnits; ++u) in[p][u] = lines_.load(slot, unit(batch.first, u), lane_);
    }
    bool missing = false;
    GC_UNROLL
    for (int p = 0; p < kMaxIn; ++p) {
      if (p > 0 && p >= peers_.n_in) break;
      const uint32_t flag = flag_of(peers_.in[p].step);
      GC_UNROLL
      for (int u = 0; u < Batch::kUnits; ++u) missing |= !Lines::arrived(in[p][u], lane_, flag);
    }
    return !Lines::any(missing);
  }

  template <class Batch>
  GC_DEV void send(const Batch& batch) const {
    for (int p = 0; p < peers_.n_out; ++p) {
      uint8_t* const slot = lines_.slot(peers_.out[p].slots, peers_.out[p].step);
      const uint32_t flag = flag_of(peers_.out[p].step);
      GC_UNROLL
      for (int u = 0; u < Batch::kUnits; ++u) {
        lines_.store(slot, unit(batch.first, u), lane_, batch.part[u], flag);
      }
    }
  }

  // Until the slots of this step have been read by the receivers. The acquire pairs with the store of head in
  // line_primitives.h and primitives.h. Differences only are compared: the counters may wrap.
  GC_DEV bool wait_for_room() {
    for (int p = 0; p < peers_.n_out; ++p) {
      LineEnd& end = peers_.out[p];
      const uint64_t goal = end.step + 1 - kSteps;
      for (uint32_t turn = 1; Lines::any(static_cast<int64_t>(end.seen - goal) < 0); ++turn) {
        if (turn > 1) pause();
        if (turn % kLatchPeriod == 0 && Lines::any(latched())) return false;
        end.seen = load_acquire(end.head);
      }
    }
    return true;
  }

  GC_DEV bool latched() const { return load_relaxed(&latch_->abort) != 0; }
  // A message whose lines do not come may have been sent by another protocol, since it has another length.
  GC_DEV bool give_up() const {
    if (latched()) return true;
    if constexpr (!kMessage) return false;
    const LineEnd& end = peers_.in[0];
    return worker_ == 0 && lane_ == 0 && !sizes_agree(latch_, end.receive, end.step, work_.message);
  }

  const Lines lines_;
  const LinePeers peers_;
  const LineWork work_;
  const Reduction reduction_;
  FaultLatch* const latch_;
  const uint32_t worker_, workers_;  // among those who take units: threads, or warps
  const uint32_t lane_;              // among the threads that share a unit
  uint64_t at_ = 0;                  // of this step, in the user's memory (modulo 2^64: a lead comes before it)
  uint32_t bytes_ = 0;               // in this step, with the lead
  bool mismatch_ = false;
};

template <class Red, class Lines, bool kMessage>
GC_NOINLINE bool move_lines(Lane lane, const ConnectionShape& shape, const LinePeers& peers, const LineWork& work,
                            const Reduction& reduction, FaultLatch* latch) {
  LineMover<Red, Lines, kMessage> mover(lane, Lines(shape), peers, work, reduction, latch);
  return mover.run(Lines::step_bytes(shape));
}

}  // namespace gpucoll::proto
