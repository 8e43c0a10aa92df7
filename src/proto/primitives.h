// Primitives: the vocabulary in which collectives are written; here over the Simple protocol (bulk data in slots,
// then head and tail counters; see format/connection.h for who writes what in which order).
//
//   send                   input -> peers                    recv                   peer -> output
//   copy_send              input -> output and peers         recv_copy_send         peer -> output and peers
//   send_from_output       output -> peers                   recv_reduce_copy       op(peers, input) -> output
//   recv_reduce_send       op(peers, input) -> peers         recv_reduce_copy_send  op(peers, input) -> output, peers
//   recv_copy_reduce_send  peer -> output, op(peer, input) -> peers
//   send_message           input -> peer                     recv_message           peer -> output
//
// Those that only put data into an output have direct forms, in which the sender may do that itself (direct.h):
// direct_send, direct_send_from_output, direct_copy_send, direct_recv, direct_recv_copy_send,
// direct_recv_reduce_copy_send (receives through slots), direct_send_message and direct_recv_message. The peer must
// call one as well, for the same place `out` of its output. docs/primitives.md says more of each. With no peer to
// receive from, op(peers, input) is the input; with none to send to, nothing is sent. op(peers, input) is op(op(peer 0,
// peer 1), input). Hooks: `pre` applies to whatever is read from the input, `post` to the results of recv_reduce_copy
// and recv_reduce_copy_send, which are complete ones.
//
// All of them are one operation with switches. An operation moves n elements, in slices: a slice is the unit of
// movement and synchronisation, kSliceSteps steps of the ring buffer. How many slices n elements take is a function of
// n and the connection alone, so that sender and receiver always agree; n == 0 takes none, but a message takes one.
//
// Roles are separate: a thread for each peer waits for its data, or for room to send, each in a warp of its own, all
// move, and after a barrier a thread for each peer posts. In a large group the last warp only posts: the release waits
// until all that was stored has arrived, and meanwhile the movers are at the next slice. Where the group is small,
// threads have several roles.
//
// Faults. Every wait observes the fault latch. When it is set the whole group leaves the operation together, and
// further operations do nothing.
//
// Thread safety: all threads of one group construct and call alike. A connector belongs to one group at a time.
// Ownership: the connectors' `step` and `seen` are read at construction and written back by the destructor.
#pragma once
#include "proto/coop.h"
#include "proto/direct.h"
#include "proto/family.h"
#include "proto/messages.h"
#include "proto/protocols.h"
#include "proto/vocabulary.h"

// Mutants (see kMutant): 1 publishes data without release, 2 posts without the barrier before, 12 keeps what came
// without one.

namespace gpucoll::proto {

template <class Family, class Coop, int kSliceSteps, int kSlicesPerChunk, bool kDirect, class F>
class Primitives<Family, Coop, Simple<kSliceSteps, kSlicesPerChunk, kDirect>, F>
    : public Vocabulary<Primitives<Family, Coop, Simple<kSliceSteps, kSlicesPerChunk, kDirect>, F>>, Switches {
  friend Vocabulary<Primitives>;

 public:
  using Element = typename Family::Element;
  using Protocol = Simple<kSliceSteps, kSlicesPerChunk, kDirect>;

  // Offsets of the operations are in elements from the buffers.
  GC_DEV Primitives(const Coop& coop, const Ends<F>& ends, const ConnectionShape& shape, FaultLatch* latch,
                    const Buffers& buffers, const Reduction& reduction)
      : coop_(coop),
        movers_(coop.lead(movers_of(coop.size()))),
        moves_(coop.rank() < movers_.size()),
        ends_(ends),
        slot_bytes_(shape.simple),
        latch_(latch),
        input_(static_cast<const uint8_t*>(buffers.input)),
        output_(static_cast<uint8_t*>(buffers.output)),
        reduction_(reduction) {
    GC_UNROLL
    for (int i = 0; i < F::kRecv; ++i) {
      if (ends.recv[i] == nullptr) break;
      in_[i].open(*ends.recv[i]);
      ++n_in_;
    }
    GC_UNROLL
    for (int i = 0; i < F::kSend; ++i) {
      if (ends.send[i] == nullptr) break;
      out_[i].open(*ends.send[i]);
      reach_[i].open(*ends.send[i], buffers.granted_bytes);
      ++n_out_;
    }
    if (n_in_ == 1) landing_.grant(*ends.recv[0], buffers, coop.rank() == 0);
    GC_UNROLL
    for (int role = 0; role < kRoles; ++role) {
      if (coop.rank() == thread_of(role)) roles_ |= 1u << role;
    }
  }
  // Barriers: before, every thread has read the steps; after, whoever constructs the next reads the new ones.
  GC_DEV ~Primitives() {
    coop_.sync();
    GC_UNROLL
    for (int i = 0; i < F::kRecv; ++i) {
      if (i < n_in_ && coop_.rank() == 0) ends_.recv[i]->step = in_[i].step;
      if (i < n_in_ && has_role(kWaitRecv + i)) ends_.recv[i]->seen = in_[i].seen;
    }
    GC_UNROLL
    for (int i = 0; i < F::kSend; ++i) {
      if (i < n_out_ && coop_.rank() == 0) ends_.send[i]->step = out_[i].step;
      if (i < n_out_ && has_role(kWaitSend + i)) ends_.send[i]->seen = out_[i].seen;
    }
    coop_.sync();
  }
  Primitives(const Primitives&) = delete;
  Primitives& operator=(const Primitives&) = delete;

  GC_DEV void direct_send(uint64_t in, uint64_t out, uint64_t n) { run(kSend | kFromInput | kSendDirect, in, out, n); }
  GC_DEV void direct_send_from_output(uint64_t out, uint64_t n) { run(kSend | kFromOutput | kSendDirect, 0, out, n); }
  GC_DEV void direct_copy_send(uint64_t in, uint64_t out, uint64_t n) {
    run(kSend | kFromInput | kToOutput | kSendDirect, in, out, n);
  }
  GC_DEV void direct_recv(uint64_t out, uint64_t n) { run(kRecv | kToOutput | kRecvDirect, 0, out, n); }
  GC_DEV void direct_recv_copy_send(uint64_t out, uint64_t n) {
    run(kRecv | kSend | kToOutput | kRecvDirect | kSendDirect, 0, out, n);
  }
  GC_DEV void direct_recv_reduce_copy_send(uint64_t in, uint64_t out, uint64_t n) {
    run(kRecv | kSend | kFromInput | kToOutput | kComplete | kSendDirect, in, out, n);
  }
  GC_DEV void direct_send_message(uint64_t in, uint64_t out, uint64_t n, uint64_t total_bytes) {
    run_message(kSend | kFromInput | kSendDirect, in, out, n, {total_bytes, -1});
  }
  GC_DEV void direct_recv_message(uint64_t out, uint64_t n, uint64_t total_bytes, int32_t peer = -1) {
    run_message(kRecv | kToOutput | kRecvDirect, 0, out, n, {total_bytes, peer});
  }

  // False once the fault latch has ended an operation; the same on every thread.
  GC_DEV bool ok() const { return ok_; }

  // The most elements of one operation that keep the connection flowing.
  static constexpr GC_HD uint64_t chunk_elements(const ConnectionShape& shape) {
    return Protocol::chunk_bytes(shape.simple) / sizeof(Element);
  }

 private:
  // A role for each peer, in this order.
  static constexpr int kWaitRecv = 0, kWaitSend = F::kRecv, kPostRecv = kWaitSend + F::kSend,
                       kPostSend = kPostRecv + F::kRecv, kRoles = kPostSend + F::kSend;

  // One end of a connection. Every thread keeps the same step; `seen` belongs to the waiting thread: the peer's
  // counter as it was read last, a lower bound of what it is now.
  struct End {
    uint8_t* receive;
    uint8_t* send;
    uint64_t step, seen;

    GC_DEV void open(const Connector& connector) {
      *this = {connector.receive, connector.send, connector.step, connector.seen};
    }
    GC_DEV uint64_t* tail() const { return reinterpret_cast<uint64_t*>(receive + ReceiveBlock::kTailOffset); }
    GC_DEV uint64_t* head() const { return reinterpret_cast<uint64_t*>(send + SendBlock::kHeadOffset); }
    GC_DEV uint8_t* slot(uint64_t slot_bytes) const {
      return receive + ReceiveBlock::kSlotsOffset + slice_step() % kSteps * slot_bytes;
    }
    GC_DEV uint32_t* size_of(uint64_t used) const {
      return reinterpret_cast<uint32_t*>(receive + ReceiveBlock::kSizesOffset) + used % kSteps;
    }
    // Where the next slice starts: a protocol with shorter slices may have left the step in the middle of one of ours;
    // the peer rounds alike.
    GC_DEV uint64_t slice_step() const { return (step + kSliceSteps - 1) / kSliceSteps * kSliceSteps; }
  };

  // Not inlined: compiled once, whatever the number of operations in an algorithm.
  GC_NOINLINE void run(unsigned what, uint64_t in, uint64_t out, uint64_t n, Message message = {}) {
    const uint64_t slice = Protocol::cut(n * sizeof(Element), slot_bytes_) / sizeof(Element);
    for (uint64_t done = 0; ok_ && (done < n || (what & kMessage) != 0); done += slice) {
      const uint64_t now = n - done < slice ? n - done : slice;
      if (moves_) ok_ = move(what, in + done, out + done, now, message);
      // Everyone's part is written and read before it is posted.
      if (kMutant != 2) ok_ = !coop_.any(!ok_);
      if (!ok_) return;
      post(what, now * sizeof(Element), message);
      what &= ~unsigned{kMessage};
    }
  }

  GC_DEV void run_message(unsigned what, uint64_t in, uint64_t out, uint64_t n, Message message) {
    run(what | kMessage, in, out, n, message);
  }

  // By the movers: false on all of them when the fault latch is set. What can be is done before the wait.
  GC_DEV bool move(unsigned what, uint64_t in, uint64_t out, uint64_t n, const Message& message) {
    Operands operands = kDirect ? Operands{} : operands_of(what, in, out);
    if (!wait(what, message)) return false;
    if constexpr (kDirect) {  // only now is it known where data lie
      look_for_outputs(what, message);
      operands = operands_of(what, in, out);
    }
    reduce_copy<Family, F::kRecv + 1>(movers_, operands, n, reduction_);
    if ((what & kKeepReceived) != 0) keep_received(out, n);
    return true;
  }

  // Behind the reduction: the output may be the input, of which another thread may have had this element.
  GC_DEV void keep_received(uint64_t out, uint64_t n) {
    if (kMutant != 12) movers_.sync();
    Operands operands{};
    operands.read(in_[0].slot(slot_bytes_));
    operands.write(output_ + out * sizeof(Element));
    reduce_copy<Family, 1>(movers_, operands, n, reduction_);
  }

  GC_DEV Operands operands_of(unsigned what, uint64_t in, uint64_t out) const {
    Operands operands{};
    GC_UNROLL
    for (int i = 0; i < F::kRecv; ++i) {
      if ((what & kRecv) == 0 || i >= n_in_) continue;
      const bool landed = (what & kRecvDirect) != 0 && landing_.in_output();
      operands.read(landed ? output_ + out * sizeof(Element) : in_[i].slot(slot_bytes_));
    }
    GC_UNROLL
    for (int i = 0; i < F::kSend; ++i) {
      if ((what & kSend) == 0 || i >= n_out_) continue;
      const bool reached = (what & kSendDirect) != 0 && reach_[i].output() != nullptr;
      operands.write(reached ? reach_[i].output() + out * sizeof(Element) : out_[i].slot(slot_bytes_));
    }
    if ((what & kFromInput) != 0) operands.read(input_ + in * sizeof(Element));
    if ((what & kFromOutput) != 0) operands.read(output_ + out * sizeof(Element));
    if ((what & kToOutput) != 0) operands.write(output_ + out * sizeof(Element));
    operands.n_raw = (what & kFromInput) != 0 ? 1 : 0;
    operands.complete = (what & kComplete) != 0;
    return operands;
  }

  // After the wait. What has landed in the output is there as source and destination, and so stays where it is. The
  // receiver is told of its output before the slice is posted: the barrier in between orders it.
  GC_DEV void look_for_outputs(unsigned what, const Message& message) {
    if ((what & kRecvDirect) != 0 && n_in_ > 0) landing_.look(in_[0].slice_step());
    GC_UNROLL
    for (int i = 0; i < F::kSend; ++i) {
      if ((what & kSendDirect) == 0 || i >= n_out_) continue;
      const bool first = has_role(kWaitSend + i);
      reach_[i].look(movers_, first, message.bytes);
      if (first) reach_[i].tell(out_[i].receive, out_[i].slice_step());
    }
  }

  // True on all movers when the slice may be moved, false on all when the fault latch is set.
  GC_DEV bool wait(unsigned what, const Message& message) {
    bool failed = false;
    GC_UNROLL
    for (int i = 0; i < F::kRecv; ++i) {
      if ((what & kRecv) != 0 && i < n_in_ && has_role(kWaitRecv + i)) failed |= !wait_for_data(what, in_[i], message);
    }
    GC_UNROLL
    for (int i = 0; i < F::kSend; ++i) {
      if ((what & kSend) != 0 && i < n_out_ && has_role(kWaitSend + i)) failed |= !wait_for_room(out_[i]);
    }
    return !movers_.any(failed);
  }

  // The acquire of tail pairs with the peer's release in post(), the load of head with its store_after_loads(): the
  // slot will only be written to. Differences only are compared: the counters may wrap.
  GC_DEV bool wait_for_data(unsigned what, End& end, const Message& message) {
    const uint64_t goal = end.slice_step() + kSliceSteps;
    for (uint32_t turn = first_turn(); static_cast<int64_t>(end.seen - goal) < 0; ++turn) {
      if (turn > 1) pause();
      end.seen = load_acquire(end.tail());
      if (turn % kLatchPeriod != 0) continue;
      if (load_relaxed(&latch_->abort) != 0) return false;
      // A sender in another protocol posts no tail.
      if ((what & kMessage) != 0 && !sizes_agree(latch_, end.receive, end.step, message)) return false;
    }
    return (what & kMessage) == 0 || sizes_agree(latch_, end.receive, end.step, message);
  }
  GC_DEV bool wait_for_room(End& end) {
    const uint64_t goal = end.slice_step() + kSliceSteps - kSteps;
    for (uint32_t turn = first_turn(); static_cast<int64_t>(end.seen - goal) < 0; ++turn) {
      if (turn > 1) pause();
      end.seen = load_before_stores(end.head());
      if (turn % kLatchPeriod == 0 && load_relaxed(&latch_->abort) != 0) return false;
    }
    return true;
  }

  // The releases pair with the peer's acquire when it waits; the barrier before made everyone's work part of them.
  // head gives back what has been read, and need not wait for what was written.
  GC_DEV void post(unsigned what, uint64_t bytes, const Message& message) {
    GC_UNROLL
    for (int i = 0; i < F::kRecv; ++i) {
      if ((what & kRecv) == 0 || i >= n_in_) continue;
      in_[i].step = in_[i].slice_step() + kSliceSteps;
      if (has_role(kPostRecv + i)) store_after_loads(in_[i].head(), in_[i].step);
    }
    GC_UNROLL
    for (int i = 0; i < F::kSend; ++i) {
      if ((what & kSend) == 0 || i >= n_out_) continue;
      const uint64_t first = out_[i].step;
      out_[i].step = out_[i].slice_step() + kSliceSteps;
      if (!has_role(kPostSend + i)) continue;
      if ((what & kMessage) != 0) post_note(out_[i].receive, first, message.bytes);
      store_relaxed(out_[i].size_of(first), slice_record(bytes, kSliceSteps));
      if (kMutant == 1)
        store_relaxed(out_[i].tail(), out_[i].step);
      else
        store_release(out_[i].tail(), out_[i].step);
    }
  }

  GC_DEV bool has_role(int role) const { return (roles_ >> role & 1) != 0; }
  // Returns how many of the group's threads move, its first ones: all, or all but its last warp.
  static GC_DEV int movers_of(int threads) {
    return threads < kWarpsToSpareOne * kWarp ? threads : threads / kWarp * kWarp - kWarp;
  }
  // The thread that has a role. Threads of one warp that post wait for each other, but nobody waits for them.
  GC_DEV int thread_of(int role) const {
    const int movers = movers_.size(), spared = coop_.size() - movers;
    if (spared > 0 && role >= kPostRecv) return movers + (role - kPostRecv) % spared;
    const int in_turn = role * kWarp, again = in_turn - movers;
    return again < 0 ? in_turn : again < movers ? again : 0;
  }

  const Coop coop_;
  const typename Coop::Lead movers_;
  const bool moves_;
  const Ends<F> ends_;
  const uint64_t slot_bytes_;
  FaultLatch* const latch_;
  const uint8_t* const input_;
  uint8_t* const output_;
  const Reduction reduction_;
  End in_[F::kRecv > 0 ? F::kRecv : 1], out_[F::kSend > 0 ? F::kSend : 1];
  [[no_unique_address]] Landing<kDirect> landing_;  // of the only peer that is received from
  [[no_unique_address]] Reach<kDirect> reach_[F::kSend > 0 ? F::kSend : 1];
  int n_in_ = 0, n_out_ = 0;
  unsigned roles_ = 0;  // bit r: this thread has role r
  bool ok_ = true;
};

}  // namespace gpucoll::proto
