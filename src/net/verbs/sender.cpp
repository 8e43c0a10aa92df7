#include "net/verbs/sender.h"

#include <algorithm>
#include <cstring>

#include "base/mutant.h"

namespace gpucoll::net {

using proto::kSteps;
using proto::Note;
using proto::StepFrame;

namespace {

// In the id of a slice: its lane, and the step behind it.
constexpr int kIdStepBits = 56;
uint64_t slice_id(int lane, uint64_t end) { return static_cast<uint64_t>(lane) << kIdStepBits | end; }

}  // namespace

Result<StepProgress> VerbsSender::move_steps() {
  GC_TRY_AS(bool moved, poll_all());
  for (int lane = 0; lane < shape_.lanes; ++lane) {
    GC_TRY_AS(const bool sent, send_filled(lane));
    moved = moved || sent;
  }
  return state(moved);
}

// A lane whose rail is given up waits until the other side has told where it goes on.
Result<bool> VerbsSender::send_filled(int lane) {
  bool any = false;
  while (rail_of(lane).works()) {
    StepFrame frame;
    const uint8_t* data;
    GC_TRY_AS(const bool filled, lanes_[static_cast<size_t>(lane)].next(&frame, &data));
    if (!filled) break;
    GC_TRY(send(lane, frame, data));
    any = true;
  }
  return any;
}

Status VerbsSender::send(int lane, const StepFrame& frame, const uint8_t* data) {
  Rail& rail = rail_of(lane);
  Status posted = post(rail, lane, frame, data);
  return posted ? Status() : give_up(rail, std::move(posted));
}

Status VerbsSender::post(Rail& rail, int lane, const StepFrame& frame, const uint8_t* data) {
  Passed& passed = passed_[static_cast<size_t>(lane)];
  passed.posted = proto::slice_begin(frame.step, frame.record) + proto::slice_steps(frame.record);
  Note* const kept = note(lane, frame.step);
  if (std::memcmp(kept, &frame.note, sizeof *kept) || (frame.step < passed.again && !gc_mutant(562))) {
    *kept = frame.note;
    GC_TRY(rail.pair->write(local(rail, kept, sizeof *kept), remote(rail, kept)));
  }
  ++rail.outstanding;
  return rail.pair->write_with_immediate(local(rail, data, proto::slice_bytes(frame.record)), remote(rail, data),
                                         proto::data_immediate(lane, frame.step, frame.record),
                                         slice_id(lane, passed.posted));
}

// Writes a full packet, so that a switch that takes smaller ones only is found out now. It writes zeros over zeros: no
// kernel has used the slots yet.
Status VerbsSender::try_out(Rail& rail) {
  const uint8_t* const slot = blocks_.receive_block(0) + proto::ReceiveBlock::kSlotsOffset;
  const uint64_t bytes = std::min<uint64_t>(rail.pair->packet_bytes(), kSteps * shape_.slots.simple);
  return rail.pair->write_with_immediate(local(rail, slot, bytes), remote(rail, slot), proto::kTrialImmediate,
                                         kTrialId);
}

Status VerbsSender::on_sent(uint64_t id) {
  const int lane = static_cast<int>(id >> kIdStepBits);
  passed_[static_cast<size_t>(lane)].sent = id & ((uint64_t{1} << kIdStepBits) - 1);
  return pass(lane);
}

Status VerbsSender::on_received(Rail& rail, const Completion& completion) {
  const int lane = proto::lane_of(completion.immediate);
  if (lane >= shape_.lanes) return Status::error(Code::remote, "it drains a lane that is not there");
  if (proto::notice_of(completion.immediate) == proto::Notice::goes_on) return go_on(rail, lane, completion.immediate);
  GC_TRY(on_head(passed_[static_cast<size_t>(lane)], completion.immediate));
  return pass(lane);
}

Status VerbsSender::on_head(Passed& passed, uint32_t immediate) {
  passed.head = proto::step_of(immediate, proto::kHeadStepBits, passed.head);
  if (passed.head <= passed.posted) return {};
  return Status::error(Code::remote, "it drains %llu steps of a connection that has %llu",
                       static_cast<unsigned long long>(passed.head), static_cast<unsigned long long>(passed.posted));
}

// The other side takes nothing any more by the rails that it has given up, and tells behind which step it is: all that
// was sent from there on is sent again.
Status VerbsSender::go_on(Rail& rail, int lane, uint32_t immediate) {
  const uint32_t others = proto::rails_that_go(immediate);
  for (size_t i = 0; i < rails_.size(); ++i)
    if ((others >> i & 1) && !(gc_mutant(564) && (others & ((1u << i) - 1))))
      GC_TRY(give_up(rails_[i], Status::error(Code::remote, "the other side has given its device up")));
  if (!rail.works()) return {};  // it fails just now: the other side will tell again
  if (rail_of(lane).works())
    return Status::error(Code::remote, "it goes on over another device though it has lost none");
  Passed& passed = passed_[static_cast<size_t>(lane)];
  const uint64_t step =
      gc_mutant(561) ? passed.sent : proto::step_of(immediate, proto::kGoesOnStepBits, passed.posted - kSteps);
  GC_TRY(lanes_[static_cast<size_t>(lane)].go_back(step));
  set_rail(lane, rail);
  passed.again = gc_mutant(565) ? passed.posted : std::max(passed.again, passed.posted);
  passed.posted = passed.sent = step;
  return pass(lane);
}

// By all rails that work: so the other side learns it if one of them does, and all are tried if it is dead.
Status VerbsSender::go_on_without(const Rail&) {
  for (Rail& rail : rails_) {
    if (!rail.works()) continue;
    ++rail.outstanding;
    Status told = rail.pair->send_immediate(proto::given_up_immediate(given_up()), kNoticeId);
    if (!told) GC_TRY(give_up(rail, std::move(told)));
  }
  return {};
}

// A slot is free once the other side has drained it, and the device will not send it again.
Status VerbsSender::pass(int lane) {
  Passed& passed = passed_[static_cast<size_t>(lane)];
  const uint64_t drained = gc_mutant(190) ? passed.head : std::min(passed.head, passed.sent);
  if (drained == passed.drained) return {};
  passed.drained = drained;
  return lanes_[static_cast<size_t>(lane)].drained(drained);
}

}  // namespace gpucoll::net
