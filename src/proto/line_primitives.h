// Primitives over protocols whose data carry their own news: what LL and LL128 share (primitives_ll.h,
// primitives_ll128.h). Operations as in primitives.h; docs/primitives.md says more of each.
//
// Nobody waits for anybody on the way of the data: each thread waits for the lines of its own units, and for room. What
// needs the group is giving slots back: a barrier every kStepsPerPost steps received, and at the end, after which head
// is posted.
//
// Faults. Every wait observes the fault latch. A thread that finds it set moves nothing any more, but comes to all
// barriers; there the group agrees on ok().
//
// Thread safety: all threads of one group construct and call alike; groups are whole warps. A connector belongs to one
// group at a time. Ownership: the connectors' `step` and `seen` are read at construction and written back by the
// destructor.
// Invariant: an operation may read what an earlier one of the same object wrote only where both are of the same n and
// place: then each thread reads what it has written itself.
#pragma once
#include "proto/coop.h"
#include "proto/family.h"
#include "proto/line_mover.h"
#include "proto/protocols.h"
#include "proto/vocabulary.h"

namespace gpucoll::proto {

// Moves by a reduction chosen at run time (proto/family.h).
template <class Lines, class F>
struct LineVisitor {
  Lane lane;
  const ConnectionShape& shape;
  LineEnds<F>& ends;
  const LineWork& work;
  const Reduction& reduction;
  FaultLatch* latch;
  bool* failed;
  template <class Red>
  GC_DEV void visit() const {
    *failed = !move_lines<Red, Lines, F, false>(lane, shape, ends, work, reduction, latch);
  }
};

template <class Family, class Coop, class Lines, class F>
class LinePrimitives : public Vocabulary<LinePrimitives<Family, Coop, Lines, F>>, Switches {
  using Words = Vocabulary<LinePrimitives>;
  friend Words;

 public:
  using Element = typename Family::Element;

  // Offsets of the operations are in elements from the buffers.
  GC_DEV LinePrimitives(const Coop& coop, const Ends<F>& ends, const ConnectionShape& shape, FaultLatch* latch,
                        const Buffers& buffers, const Reduction& reduction)
      : coop_(coop),
        ends_(ends),
        shape_(shape),
        latch_(latch),
        input_(static_cast<const uint8_t*>(buffers.input)),
        output_(static_cast<uint8_t*>(buffers.output)),
        reduction_(reduction) {
    GC_UNROLL
    for (int i = 0; i < F::kRecv; ++i) {
      if (ends.recv[i] == nullptr) break;
      line_ends_.in[i] = open(*ends.recv[i]);
      line_ends_.n_in = i + 1;
    }
    GC_UNROLL
    for (int i = 0; i < F::kSend; ++i) {
      if (ends.send[i] == nullptr) break;
      line_ends_.out[i] = open(*ends.send[i]);
      line_ends_.n_out = i + 1;
    }
  }
  // Barriers: before, every thread has read the steps; after, whoever constructs the next reads the new ones.
  GC_DEV ~LinePrimitives() {
    if (unposted_ > 0 || !met_) meet();
    if (coop_.rank() == 0) {
      GC_UNROLL
      for (int i = 0; i < F::kRecv; ++i) {
        if (i < line_ends_.n_in) ends_.recv[i]->step = line_ends_.in[i].step;
      }
      GC_UNROLL
      for (int i = 0; i < F::kSend; ++i) {
        if (i >= line_ends_.n_out) break;
        ends_.send[i]->step = line_ends_.out[i].step;
        ends_.send[i]->seen = line_ends_.out[i].seen;
      }
    }
    coop_.sync();
  }
  LinePrimitives(const LinePrimitives&) = delete;
  LinePrimitives& operator=(const LinePrimitives&) = delete;

  // Lines go through the connection: direct forms are names.
  GC_DEV void direct_send(uint64_t in, uint64_t, uint64_t n) { Words::send(in, n); }
  GC_DEV void direct_send_from_output(uint64_t out, uint64_t n) { Words::send_from_output(out, n); }
  GC_DEV void direct_copy_send(uint64_t in, uint64_t out, uint64_t n) { Words::copy_send(in, out, n); }
  GC_DEV void direct_recv(uint64_t out, uint64_t n) { Words::recv(out, n); }
  GC_DEV void direct_recv_copy_send(uint64_t out, uint64_t n) { Words::recv_copy_send(out, n); }
  GC_DEV void direct_recv_reduce_copy_send(uint64_t in, uint64_t out, uint64_t n) {
    Words::recv_reduce_copy_send(in, out, n);
  }
  GC_DEV void direct_send_message(uint64_t in, uint64_t, uint64_t n, uint64_t total_bytes) {
    Words::send_message(in, n, total_bytes);
  }
  GC_DEV void direct_recv_message(uint64_t out, uint64_t n, uint64_t total_bytes, int32_t peer = -1) {
    Words::recv_message(out, n, total_bytes, peer);
  }

  // False once the fault latch has ended an operation, and all threads have met since; the same on every thread.
  GC_DEV bool ok() const { return ok_; }

  // The most elements of one operation that keep the connection flowing.
  static constexpr GC_HD uint64_t chunk_elements(const ConnectionShape& shape) {
    return kStepsPerChunk * Lines::step_bytes(shape) / sizeof(Element);
  }

 private:
  // Ranks of a ring send a chunk each before any of them receives, and may keep kStepsPerPost steps that they have
  // read. They are stuck only if all wait for room: with more than a chunk for each of them under way.
  static constexpr uint32_t kStepsPerPost = 4, kStepsPerChunk = 2;
  static_assert(kStepsPerPost + kStepsPerChunk < kSteps);
  // One inner loop for rings and one for trees, whatever their ends: each takes its own code, and stack of the kernel.
  using Most = std::conditional_t<(F::kRecv <= 1 && F::kSend <= 1), F, Fan<2, 2>>;
  // Nothing has to be known of the elements in order to copy them, unless they have padding.
  using Copy = CopyOf<std::conditional_t<kPadded<Element>, Element, uint8_t>>;

  GC_DEV LineEnd open(const Connector& connector) const {
    return {connector.receive, Lines::slots(connector.receive, shape_),
            reinterpret_cast<uint64_t*>(connector.send + SendBlock::kHeadOffset), connector.step, connector.seen};
  }

  // Not inlined: compiled once, whatever the number of operations in an algorithm.
  GC_NOINLINE void run(unsigned what, uint64_t in, uint64_t out, uint64_t n) {
    LineWork work = work_of(what, in, out);
    if (!work.reads && (!work.receives || line_ends_.n_in == 0)) return;
    const uint32_t step_bytes = Lines::step_bytes(shape_);
    for (uint64_t left = n * sizeof(Element); ok_ && left > 0; left -= work.bytes) {
      const uint32_t most = (kStepsPerPost - unposted_) * step_bytes;
      work.bytes = left < most ? static_cast<uint32_t>(left) : most;
      move(work);
      advance(work);
    }
  }
  // A first step, in which the message's length comes before the data; what is left goes as always. The note goes out
  // behind the first lines, and before this group might wait for room again.
  GC_NOINLINE void run_message(unsigned what, uint64_t in, uint64_t out, uint64_t n, Message message) {
    if (!ok_) return;
    LineWork work = work_of(what, in, out);
    work.message = message;
    const uint64_t most = (Lines::step_bytes(shape_) - kLeadBytes) / sizeof(Element), first = n < most ? n : most;
    const uint64_t first_step = work.sends ? line_ends_.out[0].step : 0;
    work.bytes = static_cast<uint32_t>(first * sizeof(Element));
    if (!failed_) failed_ = !move_lines<Copy, Lines, Most, true>(lane(), shape_, line_ends_, work, reduction_, latch_);
    if (work.sends && coop_.rank() == coop_.size() - 1 && !failed_) {
      post_note(line_ends_.out[0].receive, first_step, message.bytes);
    }
    advance(work);
    if (first < n) run(what, in + first, out + first, n - first);
    if (work.receives) meet();
  }

  GC_DEV Lane lane() const { return {static_cast<uint32_t>(coop_.rank()), static_cast<uint32_t>(coop_.size())}; }
  GC_DEV LineWork work_of(unsigned what, uint64_t in, uint64_t out) const {
    LineWork work{};
    work.input = (what & kFromOutput) != 0 ? output_ + out * sizeof(Element) : input_ + in * sizeof(Element);
    work.output = output_ + out * sizeof(Element);
    work.sends = (what & kSend) != 0;
    work.receives = (what & kRecv) != 0;
    work.reads = (what & (kFromInput | kFromOutput)) != 0;
    work.writes = (what & kToOutput) != 0;
    work.keeps_received = (what & kKeepReceived) != 0;
    work.own = (what & kFromInput) != 0;
    work.complete = (what & kComplete) != 0;
    return work;
  }

  GC_DEV void move(const LineWork& work) {
    if (failed_) return;
    if constexpr (Family::kOps > 0) {
      const bool reduces = (work.receives ? line_ends_.n_in : 0) + work.reads > 1;
      const bool pre = work.own && (Family::kPre >> reduction_.op & 1) != 0;
      const bool post = work.complete && (Family::kPost >> reduction_.op & 1) != 0;
      if (reduces || pre || post) {
        const LineVisitor<Lines, Most> visitor{lane(), shape_, line_ends_, work, reduction_, latch_, &failed_};
        return Family::choose(reduction_.op, visitor);
      }
    }
    failed_ = !move_lines<Copy, Lines, Most, false>(lane(), shape_, line_ends_, work, reduction_, latch_);
  }

  // Behind a move: what the group does together. How often is a function of the operations alone, whoever failed.
  GC_DEV void advance(LineWork& work) {
    work.input += work.bytes;
    work.output += work.bytes;
    if (!work.receives || line_ends_.n_in == 0) return;
    const uint32_t step_bytes = Lines::step_bytes(shape_);
    for (uint32_t bytes = work.bytes; ++unposted_, bytes > step_bytes;) bytes -= step_bytes;
    if (unposted_ >= kStepsPerPost) meet();
  }
  // Agrees on ok(), and gives back the slots that all have read.
  GC_DEV void meet() {
    if (kMutant == 7)  // gives back what others may be reading
      ok_ = !failed_;
    else
      ok_ = ok_ && !coop_.any(failed_);
    GC_UNROLL
    for (int i = 0; i < F::kRecv; ++i) {
      if (i < line_ends_.n_in && ok_ && unposted_ > 0 && coop_.rank() == (i < coop_.size() ? i : 0))
        store_after_loads(line_ends_.in[i].head, line_ends_.in[i].step);
    }
    unposted_ = 0;
    met_ = true;
  }

  const Coop coop_;
  const Ends<F> ends_;
  const ConnectionShape shape_;
  FaultLatch* const latch_;
  const uint8_t* const input_;
  uint8_t* const output_;
  const Reduction reduction_;
  LineEnds<Most> line_ends_;
  uint32_t unposted_ = 0;  // steps received since the group last met
  bool failed_ = false;    // a wait of this thread has been ended by the latch
  bool ok_ = true;
  bool met_ = false;  // since construction
};

}  // namespace gpucoll::proto
