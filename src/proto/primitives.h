// Primitives: the vocabulary in which collectives are written; here over the Simple protocol (bulk data in slots,
// then head and tail counters; see format/connection.h for who writes what in which order).
//
//   send                   input -> peer                     recv                   peer -> output
//   copy_send              input -> output and peer          recv_copy_send         peer -> output and peer
//   recv_reduce_copy       op(peer, input) -> output         recv_reduce_send       op(peer, input) -> peer
//   recv_reduce_copy_send  op(peer, input) -> output and peer
//
// All of them are one operation with compile-time switches. An operation moves n elements, in slices: a slice is
// the unit of movement and synchronisation, kSliceSteps steps of the ring buffer. How many slices n elements take
// is a function of n and the connection alone, so that sender and receiver always agree; n == 0 takes none.
//
// Roles are separate: one thread waits for the data to receive, another for room to send, all move, and after a
// barrier two threads post. Where the group is smaller than that, threads have several roles.
//
// Faults. Every wait observes the fault latch. When it is set the whole group leaves the operation together, and
// further operations do nothing.
//
// Thread safety: all threads of one group construct and call alike. A connector belongs to one group at a time.
// Ownership: the connectors' steps are read at construction and written back by the destructor.
//
// Another protocol is a specialisation of Primitives by its own tag.
#pragma once
#include <initializer_list>

#include "proto/coop.h"
#include "proto/format/plan.h"
#include "proto/reduce_copy.h"

// Mutants (see GC_MUTANT): 1 publishes data without release, 2 posts without the barrier before.

namespace gpucoll::proto {

template <int kSliceSteps_ = 2, int kSlicesPerChunk_ = 2>
struct Simple {
  static constexpr int kSliceSteps = kSliceSteps_;
  static constexpr int kSlicesPerChunk = kSlicesPerChunk_;
  // A slice must lie in neighbouring slots. A sender with one chunk under way must still be able to start the next.
  static_assert(kSteps % kSliceSteps == 0 && 2 * kSliceSteps * kSlicesPerChunk <= kSteps);

  static constexpr GC_HD uint64_t slice_bytes(uint64_t slot_bytes) { return kSliceSteps * slot_bytes; }
  static constexpr GC_HD uint64_t chunk_bytes(uint64_t slot_bytes) { return kSlicesPerChunk * slice_bytes(slot_bytes); }

  // Bytes of each slice (the last may be shorter) of an operation on `bytes`: a chunk's worth is cut into
  // kSlicesPerChunk, so that the peer starts on the first while the second is under way; little is not cut at all, as
  // a slice costs two barriers and a hand-over. The limit was measured on GPUs (docs/performance.md).
  static constexpr GC_HD uint64_t cut(uint64_t bytes, uint64_t slot_bytes) {
    constexpr uint64_t kLine = 128;
    const uint64_t most = slice_bytes(slot_bytes), least = most / 8 / kLine * kLine;
    const uint64_t even = ((bytes + kSlicesPerChunk - 1) / kSlicesPerChunk + kLine - 1) / kLine * kLine;
    return even > most ? most : even < least ? least : even;
  }
};

template <class Red, class Coop, class Protocol = Simple<>>
class Primitives;

template <class Red, class Coop, int kSliceSteps, int kSlicesPerChunk>
class Primitives<Red, Coop, Simple<kSliceSteps, kSlicesPerChunk>> {
 public:
  using Element = typename Red::Element;
  using Protocol = Simple<kSliceSteps, kSlicesPerChunk>;

  // Either connector may be null where no operation uses it; slot_bytes is a multiple of 128. Offsets of the
  // operations are in elements from `input` and `output`.
  GC_DEV Primitives(const Coop& coop, Connector* recv, Connector* send, uint64_t slot_bytes, const FaultLatch* latch,
                    const void* input, void* output)
      : coop_(coop),
        recv_(recv),
        send_(send),
        slot_bytes_(slot_bytes),
        latch_(latch),
        input_(static_cast<const uint8_t*>(input)),
        output_(static_cast<uint8_t*>(output)) {
    if (recv != nullptr) in_.open(*recv, recv->tail, recv->head, recv->step);
    if (send != nullptr) out_.open(*send, send->head, send->tail, send->step - kSteps);
    for (int role : {kWaitRecv, kWaitSend, kPostRecv, kPostSend}) {
      if (coop.rank() == role * kWarp % coop.size()) roles_ |= 1u << role;
    }
  }
  // Barriers: before, every thread has read the steps; after, whoever constructs the next reads the new ones.
  GC_DEV ~Primitives() {
    coop_.sync();
    if (coop_.rank() == 0) {
      if (recv_ != nullptr) recv_->step = in_.step;
      if (send_ != nullptr) send_->step = out_.step;
    }
    coop_.sync();
  }
  Primitives(const Primitives&) = delete;
  Primitives& operator=(const Primitives&) = delete;

  GC_DEV void send(uint64_t in, uint64_t n) { run<kSend | kFromInput>(in, 0, n); }
  GC_DEV void recv(uint64_t out, uint64_t n) { run<kRecv | kToOutput>(0, out, n); }
  GC_DEV void copy_send(uint64_t in, uint64_t out, uint64_t n) { run<kSend | kFromInput | kToOutput>(in, out, n); }
  GC_DEV void recv_copy_send(uint64_t out, uint64_t n) { run<kRecv | kSend | kToOutput>(0, out, n); }
  GC_DEV void recv_reduce_copy(uint64_t in, uint64_t out, uint64_t n) {
    run<kRecv | kFromInput | kToOutput>(in, out, n);
  }
  GC_DEV void recv_reduce_send(uint64_t in, uint64_t n) { run<kRecv | kSend | kFromInput>(in, 0, n); }
  GC_DEV void recv_reduce_copy_send(uint64_t in, uint64_t out, uint64_t n) {
    run<kRecv | kSend | kFromInput | kToOutput>(in, out, n);
  }

  // False once the fault latch has ended an operation; the same on every thread.
  GC_DEV bool ok() const { return ok_; }

 private:
  enum Switch : unsigned { kRecv = 1, kSend = 2, kFromInput = 4, kToOutput = 8 };
  enum Role : int { kWaitRecv, kWaitSend, kPostRecv, kPostSend };

  // One end of a connection. Every thread keeps the same step; `seen` belongs to the waiting thread: the peer's
  // counter as it was read last, a lower bound of what it is now.
  struct End {
    uint8_t* slots = nullptr;
    uint64_t* theirs = nullptr;  // the counter that the peer writes: waited for
    uint64_t* ours = nullptr;    // the counter that this end writes: posted
    uint64_t step = 0;
    uint64_t seen = 0;

    GC_DEV void open(const Connector& connector, uint64_t* peers, uint64_t* own, uint64_t lower_bound) {
      slots = connector.slots;
      theirs = peers;
      ours = own;
      seen = lower_bound;
      // A protocol with shorter slices may have left the step in the middle of one of ours; the peer rounds alike.
      step = (connector.step + kSliceSteps - 1) / kSliceSteps * kSliceSteps;
    }
    GC_DEV uint8_t* slot(uint64_t slot_bytes) const { return slots + step % kSteps * slot_bytes; }
  };

  template <unsigned kDo>
  GC_DEV void run(uint64_t in, uint64_t out, uint64_t n) {
    const uint64_t slice = Protocol::cut(n * sizeof(Element), slot_bytes_) / sizeof(Element);
    for (uint64_t done = 0; ok_ && done < n; done += slice) {
      ok_ = wait<kDo>();
      if (!ok_) return;
      move<kDo>(in + done, out + done, n - done < slice ? n - done : slice);
#if GC_MUTANT != 2
      coop_.sync();  // everyone's part is written and read before it is posted
#endif
      post<kDo>();
    }
  }

  // True on all threads when the slice may be moved, false on all when the fault latch is set.
  template <unsigned kDo>
  GC_DEV bool wait() {
    bool failed = false;
    if ((kDo & kRecv) != 0 && has_role(kWaitRecv)) failed = !wait_for(in_, in_.step + kSliceSteps);
    if ((kDo & kSend) != 0 && has_role(kWaitSend)) failed |= !wait_for(out_, out_.step + kSliceSteps - kSteps);
    return !coop_.any(failed);
  }

  // Until the peer's counter has reached `goal`. The acquire pairs with the peer's release in post(). Differences
  // only are compared: the counters may wrap.
  GC_DEV bool wait_for(End& end, uint64_t goal) {
    uint32_t turn = 0;
    while (static_cast<int64_t>(end.seen - goal) < 0) {
      if (++turn % kLatchPeriod == 0 && load_relaxed(&latch_->abort) != 0) return false;
      if (turn > 1) pause();
      end.seen = load_acquire(end.theirs);
    }
    return true;
  }

  template <unsigned kDo>
  GC_DEV void move(uint64_t in, uint64_t out, uint64_t n) {
    Sources<((kDo & kRecv) != 0) + ((kDo & kFromInput) != 0)> from;
    Destinations<((kDo & kSend) != 0) + ((kDo & kToOutput) != 0)> to;
    if constexpr ((kDo & kRecv) != 0) from.at[0] = in_.slot(slot_bytes_);
    if constexpr ((kDo & kFromInput) != 0) from.at[(kDo & kRecv) != 0] = input_ + in * sizeof(Element);
    if constexpr ((kDo & kSend) != 0) to.at[0] = out_.slot(slot_bytes_);
    if constexpr ((kDo & kToOutput) != 0) to.at[(kDo & kSend) != 0] = output_ + out * sizeof(Element);
    reduce_copy<Red>(coop_, from, to, n);
  }

  // The releases pair with the peer's acquire in wait_for(); the barrier before made everyone's work part of them.
  template <unsigned kDo>
  GC_DEV void post() {
    if constexpr ((kDo & kRecv) != 0) {
      in_.step += kSliceSteps;
      if (has_role(kPostRecv)) store_release(in_.ours, in_.step);
    }
    if constexpr ((kDo & kSend) != 0) {
      out_.step += kSliceSteps;
#if GC_MUTANT == 1
      if (has_role(kPostSend)) store_relaxed(out_.ours, out_.step);
#else
      if (has_role(kPostSend)) store_release(out_.ours, out_.step);
#endif
    }
  }

  GC_DEV bool has_role(Role role) const { return (roles_ >> role & 1) != 0; }

  const Coop coop_;
  Connector* const recv_;
  Connector* const send_;
  const uint64_t slot_bytes_;
  const FaultLatch* const latch_;
  const uint8_t* const input_;
  uint8_t* const output_;
  End in_, out_;
  unsigned roles_ = 0;  // bit r: this thread has role r
  bool ok_ = true;
};

}  // namespace gpucoll::proto
