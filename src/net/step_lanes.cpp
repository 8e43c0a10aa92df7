#include "net/step_lanes.h"

namespace gpucoll::net {
namespace {

using proto::kSteps;
using proto::Note;
using proto::ReceiveBlock;
using proto::SendBlock;
using proto::StepFrame;
using proto::StepKind;

template <class T>
T* at(uint8_t* block, size_t offset) {
  return reinterpret_cast<T*>(block + offset);
}
uint64_t* tail_of(uint8_t* block) { return at<uint64_t>(block, ReceiveBlock::kTailOffset); }
uint64_t* head_of(uint8_t* block) { return at<uint64_t>(block, SendBlock::kHeadOffset); }
Note* note_of(uint8_t* block, uint64_t step) { return at<Note>(block, ReceiveBlock::kNotesOffset) + step % kSteps; }
uint8_t* slot_of(uint8_t* block, uint64_t step, uint64_t slot_bytes) {
  return block + ReceiveBlock::kSlotsOffset + step % kSteps * slot_bytes;
}

// The steps that both ends have used behind a slice.
uint64_t end_of(uint64_t used, uint32_t record) {
  return proto::slice_begin(used, record) + proto::slice_steps(record);
}

// Notes are words that tell of their own arrival (format/connection.h), high and low on their own.
void copy_note(Note* to, const Note& from) {
  __atomic_store_n(&to->low, from.low, __ATOMIC_RELAXED);
  __atomic_store_n(&to->high, from.high, __ATOMIC_RELAXED);
}
Note read_note(const Note* note) {
  return {__atomic_load_n(&note->low, __ATOMIC_RELAXED), __atomic_load_n(&note->high, __ATOMIC_RELAXED)};
}

}  // namespace

Result<bool> SendingLane::next(StepFrame* frame, const uint8_t** data) {
  // Acquire: partner is the release of tail by the kernel, behind data, note and record.
  const uint64_t tail = __atomic_load_n(tail_of(receive_), __ATOMIC_ACQUIRE);
  if (tail == sent_) return false;
  const auto* const records = at<const uint32_t>(receive_, ReceiveBlock::kSizesOffset);
  const uint32_t record = __atomic_load_n(&records[sent_ % kSteps], __ATOMIC_RELAXED);
  const uint64_t end = end_of(sent_, record);
  if (static_cast<int64_t>(tail - end) < 0)
    return Status::error(Code::internal, "step %llu of a connection ends behind its tail, %llu",
                         static_cast<unsigned long long>(end), static_cast<unsigned long long>(tail));
  *frame = {};
  frame->magic = proto::kStepMagic;
  frame->kind = StepKind::kData;
  frame->step = sent_;
  frame->record = record;
  frame->note = read_note(note_of(receive_, sent_));
  *data = slot_of(receive_, proto::slice_begin(sent_, record), slot_bytes_);
  sent_ = end;
  return true;
}

Status SendingLane::drained(uint64_t head) {
  if (static_cast<int64_t>(head - head_) < 0 || static_cast<int64_t>(sent_ - head) < 0)
    return Status::error(Code::remote, "it drains %llu steps of a connection that has %llu",
                         static_cast<unsigned long long>(head), static_cast<unsigned long long>(sent_));
  head_ = head;
  __atomic_store_n(head_of(send_), head, __ATOMIC_RELEASE);  // partner: the kernel's wait for room
  return {};
}

Status SendingLane::go_back(uint64_t step) {
  if (static_cast<int64_t>(step - head_) < 0 || static_cast<int64_t>(sent_ - step) < 0)
    return Status::error(Code::remote, "it goes on behind step %llu of a connection that has %llu",
                         static_cast<unsigned long long>(step), static_cast<unsigned long long>(sent_));
  sent_ = step;  // kernels use no slot again, nor its record, that lies behind head_
  return {};
}

bool SendingLane::all_drained() const noexcept { return head_ == __atomic_load_n(tail_of(receive_), __ATOMIC_ACQUIRE); }

Result<uint8_t*> ReceivingLane::place(const StepFrame& frame) {
  const uint64_t begin = proto::slice_begin(frame.step, frame.record), end = end_of(frame.step, frame.record);
  const uint64_t room = proto::slice_steps(frame.record) * slot_bytes_;
  // Kernels may have drained more than the sender has been told.
  const uint64_t head = __atomic_load_n(head_of(send_), __ATOMIC_ACQUIRE);
  if (frame.step != tail_ || proto::slice_bytes(frame.record) > room || end - head > kSteps)
    return Status::error(Code::remote, "it sends %llu bytes behind step %llu of a connection that is at %llu",
                         static_cast<unsigned long long>(proto::slice_bytes(frame.record)),
                         static_cast<unsigned long long>(frame.step), static_cast<unsigned long long>(tail_));
  return slot_of(receive_, begin, slot_bytes_);
}

void ReceivingLane::arrived(const StepFrame& frame) {
  copy_note(note_of(receive_, frame.step), frame.note);
  tail_ = end_of(frame.step, frame.record);
  __atomic_store_n(tail_of(receive_), tail_, __ATOMIC_RELEASE);  // partner: the kernel's wait for data
}

bool ReceivingLane::drained(uint64_t* head) {
  // Acquire: partner is the kernel's store of head, behind its loads: the slots may be written again.
  const uint64_t now = __atomic_load_n(head_of(send_), __ATOMIC_ACQUIRE);
  if (now == head_) return false;
  *head = head_ = now;
  return true;
}

}  // namespace gpucoll::net
