#include "net/verbs/receiver.h"

#include "base/mutant.h"

namespace gpucoll::net {

using proto::StepFrame;

Result<StepProgress> VerbsReceiver::move_steps() {
  GC_TRY_AS(bool moved, poll_all());
  // The sender may use the steps that a head sets free before the head's own completion comes.
  for (int lane = 0; lane < shape_.lanes; ++lane) {
    GC_TRY_AS(const bool told, tell_head(lane));
    moved = moved || told;
  }
  return state(moved);
}

Result<bool> VerbsReceiver::tell_head(int lane) {
  Rail& rail = rail_of(lane);
  uint64_t& head = heads_[static_cast<size_t>(lane)];
  if (rail.outstanding >= most_sends_ || !lanes_[static_cast<size_t>(lane)].drained(&head)) return false;
  ++rail.outstanding;
  Status told = rail.pair->send_immediate(proto::head_immediate(lane, head), 0);
  if (!told) GC_TRY(give_up(rail, std::move(told)));
  return true;
}

Status VerbsReceiver::try_out(Rail& rail) { return rail.pair->send_immediate(proto::kTrialImmediate, kTrialId); }

Status VerbsReceiver::on_received(Rail&, const Completion& completion) {
  if (!completion.written) return on_given_up(completion.immediate);
  const int lane = proto::lane_of(completion.immediate);
  if (lane >= shape_.lanes) return Status::error(Code::remote, "it sends to a lane that is not there");
  return on_data(lane, completion);
}

Status VerbsReceiver::on_data(int lane, const Completion& completion) {
  ReceivingLane& receiving = lanes_[static_cast<size_t>(lane)];
  StepFrame frame = {};
  frame.step = proto::step_of(completion.immediate, proto::kDataStepBits, receiving.tail());
  frame.record = proto::record_of(completion.immediate, completion.bytes);
  frame.note = *note(lane, frame.step);
  GC_TRY(receiving.place(frame).status());
  receiving.arrived(frame);
  return {};
}

Status VerbsReceiver::on_given_up(uint32_t rails) {
  for (size_t i = 0; i < rails_.size(); ++i)
    if (rails >> i & 1)
      GC_TRY(give_up(rails_[i], Status::error(Code::remote, "the other side has given its device up")));
  return {};
}

Status VerbsReceiver::go_on_without(const Rail& rail) {
  for (int lane = 0; lane < shape_.lanes; ++lane)
    if (&rail_of(lane) == &rail) GC_TRY(move(lane));
  return {};
}

// Tells by which rail a lane goes on, and from where, and then its head, which may be lost. Lanes that had one rail
// take those that work in turn.
Status VerbsReceiver::move(int lane) {
  std::vector<Rail*> working;
  for (Rail& rail : rails_)
    if (rail.works()) working.push_back(&rail);
  Rail& rail = *working[static_cast<size_t>(lane) / rails_.size() % working.size()];
  set_rail(lane, rail);
  rail.outstanding += 2;
  const uint64_t tail = lanes_[static_cast<size_t>(lane)].tail();
  Status told = rail.pair->send_immediate(proto::goes_on_immediate(lane, given_up(), tail), kNoticeId);
  const uint64_t head = gc_mutant(568) ? 0 : heads_[static_cast<size_t>(lane)];
  if (told) told = rail.pair->send_immediate(proto::head_immediate(lane, head), kNoticeId);
  return told ? Status() : give_up(rail, std::move(told));
}

}  // namespace gpucoll::net
