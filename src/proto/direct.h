// Direct forms of the operations of Simple: the sender stores straight into the receiver's output, so that the receiver
// need not copy the data again. What both ends keep of that during one operation; format/connection.h says who writes
// what in which order.
//
// Nothing is agreed upon: a receiver grants its output or does not, a sender that finds the grant goes over to it at
// the next slice, and tells where that was. What came before lies in the slots. The end of a connection in operations
// that have no direct forms is empty, and its functions are nothing.
//
// Thread safety: every thread of the group has its own copy of both, and calls alike; `first` says which one stores.
// Ownership: none.
#pragma once
#include "proto/format/connection.h"
#include "proto/protocols.h"

// Mutants (see kMutant): 9 takes any operation's grant, 10 grants without release, 20 takes a grant of any
// length.

namespace gpucoll::proto {

GC_DEV Grant* grant_of(uint8_t* send_block) { return reinterpret_cast<Grant*>(send_block + SendBlock::kGrantOffset); }
GC_DEV uint64_t* direct_from_of(uint8_t* receive_block) {
  return reinterpret_cast<uint64_t*>(receive_block + ReceiveBlock::kDirectFromOffset);
}

// Tells a receiving end whether the data of a step lie in the output.
template <bool kDirect>
class Landing {
 public:
  GC_DEV void grant(const Connector&, const Buffers&, bool) {}
  GC_DEV void look(uint64_t) {}
  GC_DEV bool in_output() const { return false; }
};

template <>
class Landing<true> {
 public:
  // The release covers what this group did with the output before. REQUIRES: its threads have met since.
  GC_DEV void grant(const Connector& end, const Buffers& buffers, bool first) {
    if (buffers.granted == nullptr) return;
    direct_from_ = direct_from_of(end.receive);
    before_ = end.step - 1;
    if (!first) return;
    store_relaxed(direct_from_, before_);
    Grant* const grant = grant_of(end.send);
    store_relaxed(&grant->address, reinterpret_cast<uint64_t>(buffers.granted));
    store_relaxed(&grant->bytes, buffers.granted_bytes);
    if (kMutant == 10)
      store_relaxed(&grant->step, end.step);
    else
      store_release(&grant->step, end.step);  // the partner is the sender's acquire in Reach::found()
  }
  // REQUIRES: the data of the slice that starts at this step have come, and all threads have met since. They may see
  // different values where the sender is ahead: none of them means this step then.
  GC_DEV void look(uint64_t slice_step) {
    if (direct_from_ == nullptr || in_output_) return;
    const uint64_t from = load_relaxed(direct_from_);
    in_output_ = from != before_ && static_cast<int64_t>(slice_step - from) >= 0;
  }
  GC_DEV bool in_output() const { return in_output_; }

 private:
  uint64_t* direct_from_ = nullptr;  // null: nothing was granted
  uint64_t before_ = 0;
  bool in_output_ = false;
};

// Tells a sending end where the receiver's output is, once it is granted.
template <bool kDirect>
class Reach {
 public:
  GC_DEV void open(const Connector&, uint64_t) {}
  template <class Coop>
  GC_DEV void look(const Coop&, bool, uint64_t) {}
  GC_DEV void tell(uint8_t*, uint64_t) {}
  GC_DEV uint8_t* output() const { return nullptr; }
};

template <>
class Reach<true> {
 public:
  // output_bytes: in collectives, of this rank's output, and so of every other's.
  GC_DEV void open(const Connector& end, uint64_t output_bytes) {
    grant_ = grant_of(end.send);
    first_step_ = end.step;
    output_bytes_ = output_bytes;
  }
  // All threads come to the same answer: one of them, which has `first`, looks. A barrier, until there is an answer.
  // message_bytes: 0 in collectives.
  template <class Coop>
  GC_DEV void look(const Coop& coop, bool first, uint64_t message_bytes) {
    if (output_ != nullptr || !coop.any(first && found(message_bytes != 0 ? message_bytes : output_bytes_))) return;
    output_ = reinterpret_cast<uint8_t*>(load_relaxed(&grant_->address));
  }
  // By one thread, before the slice that starts at this step is posted: from there on, data go to the output.
  GC_DEV void tell(uint8_t* receive_block, uint64_t slice_step) {
    if (output_ == nullptr || told_) return;
    store_relaxed(direct_from_of(receive_block), slice_step);
    told_ = true;
  }
  GC_DEV uint8_t* output() const { return output_; }

 private:
  // A message of another length would end outside of the output, and so would a collective of another count.
  GC_DEV bool found(uint64_t bytes) const {
    if (kMutant != 9 && load_acquire(&grant_->step) != first_step_) return false;
    return load_relaxed(&grant_->address) != 0 && (kMutant == 20 || load_relaxed(&grant_->bytes) == bytes);
  }

  const Grant* grant_ = nullptr;
  uint64_t first_step_ = 0, output_bytes_ = 0;
  uint8_t* output_ = nullptr;
  bool told_ = false;
};

}  // namespace gpucoll::proto
