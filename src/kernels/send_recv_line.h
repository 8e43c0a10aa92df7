// Short messages: parts of messages over LL that fit two steps of their connection. What LinePrimitives::send_message
// and recv_message do (proto/line_primitives.h), on the wire the same, in as few instructions as it takes: a small
// launch costs little else.
//
// Thread safety: called by all threads of a group of whole warps, to which the end belongs. The end's step and seen are
// written back by one of them: all must have met (the block, in run_plan.h) before they are used again.
#pragma once
#include "proto/format/plan.h"
#include "proto/line_parts.h"
#include "proto/line_work.h"
#include "proto/ll.h"

namespace gpucoll::coll::device {

// Two, as parts are as long as a step, and the lead comes in addition.
GC_DEV bool is_short(uint64_t part_bytes, const proto::ConnectionShape& shape) {
  return part_bytes <= 2 * proto::LlLines::step_bytes(shape) - proto::kLeadBytes;
}

// One part of a message in its steps: a pack that says how long the message is, then the data.
// REQUIRES: is_short(bytes, shape).
class ShortMessage {
 public:
  GC_DEV ShortMessage(proto::Connector& end, const proto::ConnectionShape& shape, proto::FaultLatch* latch,
                      uint64_t bytes, const proto::Message& message)
      : home_(end),
        end_(end),
        lines_(shape),
        slots_(proto::LlLines::slots(end_.receive, shape)),
        latch_(latch),
        message_(message),
        bytes_(static_cast<uint32_t>(bytes)),
        packs_(1 + (bytes_ + kPackBytes - 1) / kPackBytes),
        step_packs_(proto::LlLines::step_bytes(shape) / kPackBytes),
        next_step_(end_.step + (packs_ > step_packs_ ? 2 : 1)) {}

  // The note goes out behind the lines (proto/messages.h), by the thread that has the fewest of them.
  template <class Coop>
  GC_DEV void send(const Coop& coop, const uint8_t* from) {
    const uint32_t first = static_cast<uint32_t>(coop.rank()), step = static_cast<uint32_t>(coop.size());
    const bool room = wait_for_room();
    for (uint32_t p = first; room && p < packs_; p += step) {
      const proto::Pack pack[1] = {p == 0 ? lead()
                                          : proto::read_fast<uint8_t>(from + (p - 1) * kPackBytes, bytes_of(p))};
      const Place at = place_of(p);
      lines_.store(lines_.slot(slots_, at.step), at.unit, 0, pack, proto::flag_of(at.step));
    }
    if (room && first == step - 1) proto::post_note(end_.receive, end_.step, message_.bytes);
    coop.sync();  // all have read the step
    if (first != 0) return;
    home_.step = next_step_;
    home_.seen = end_.seen;
  }
  // Reports a sender of another length.
  template <class Coop>
  GC_DEV void receive(const Coop& coop, uint8_t* to) {
    const uint32_t first = static_cast<uint32_t>(coop.rank()), step = static_cast<uint32_t>(coop.size());
    bool ok = true;
    for (uint32_t p = first; ok && p < packs_; p += step) {
      proto::Pack pack;
      ok = wait_for_pack(p, pack) && (p != 0 || is_lead(pack));
      if (ok && p != 0) proto::write_fast<uint8_t>(to + (p - 1) * kPackBytes, pack, bytes_of(p));
    }
    const bool failed = coop.any(!ok);  // all have read the slots and the step
    if (first != 0) return;
    home_.step = next_step_;
    if (!failed)
      proto::store_after_loads(reinterpret_cast<uint64_t*>(end_.send + proto::SendBlock::kHeadOffset), home_.step);
  }

 private:
  static constexpr uint32_t kPackBytes = sizeof(proto::Pack);

  // Where a pack travels.
  struct Place {
    uint64_t step;
    uint32_t unit;
  };
  GC_DEV Place place_of(uint32_t pack) const {
    return pack < step_packs_ ? Place{end_.step, pack} : Place{end_.step + 1, pack - step_packs_};
  }
  GC_DEV uint32_t bytes_of(uint32_t pack) const {
    const uint32_t left = bytes_ - (pack - 1) * kPackBytes;
    return left < kPackBytes ? left : kPackBytes;
  }
  GC_DEV proto::Pack lead() const { return __builtin_bit_cast(proto::Pack, proto::WordPair{message_.bytes, 0}); }
  GC_DEV bool is_lead(const proto::Pack& pack) const {
    const uint64_t sent = __builtin_bit_cast(proto::WordPair, pack).first;
    if (sent != message_.bytes) proto::report_sizes(latch_, message_, sent);
    return sent == message_.bytes;
  }

  // Until the receiver has read what was in the slots before. The load pairs with the store of head in receive() and in
  // the primitives.
  GC_DEV bool wait_for_room() {
    const uint64_t goal = next_step_ - proto::kSteps;
    const auto* const head = reinterpret_cast<const uint64_t*>(end_.send + proto::SendBlock::kHeadOffset);
    for (uint32_t turn = proto::first_turn(); static_cast<int64_t>(end_.seen - goal) < 0; ++turn) {
      end_.seen = proto::load_before_stores(head);
      if (turn % proto::kLatchPeriod == 0 && latched()) return false;
      proto::pause();
    }
    return true;
  }
  GC_DEV bool wait_for_pack(uint32_t index, proto::Pack& pack) const {
    const Place at = place_of(index);
    const uint8_t* const slot = lines_.slot(slots_, at.step);
    for (uint32_t turn = proto::first_turn();; ++turn) {
      const proto::LlPack in = lines_.load(slot, at.unit, 0);
      if (in.arrived(proto::flag_of(at.step))) {
        pack = in.data();
        return true;
      }
      if (turn % proto::kLatchPeriod == 0 && (latched() || (index == 0 && !sizes_agree()))) return false;
      proto::pause();
    }
  }
  GC_DEV bool latched() const { return proto::load_relaxed(&latch_->abort) != 0; }
  // A message of another length may come over another protocol.
  GC_DEV bool sizes_agree() const { return proto::sizes_agree(latch_, end_.receive, end_.step, message_); }

  proto::Connector& home_;
  proto::Connector end_;
  const proto::LlLines lines_;
  uint8_t* const slots_;
  proto::FaultLatch* const latch_;
  const proto::Message message_;
  const uint32_t bytes_, packs_, step_packs_;
  const uint64_t next_step_;
};

}  // namespace gpucoll::coll::device
