// Messages of send and receive: how the receiver learns how long a message is, and what it does when that is not what
// it was told to receive. See format/connection.h (notes) and format/plan.h (the latch).
//
// The first step of a message is the number of steps that its ends had used before, whatever protocol each of them
// uses, and however that rounds steps: so a note is found also by a receiver in another protocol.
//
// Thread safety: one thread of the sender posts, one of the receiver looks.
#pragma once
#include "proto/format/plan.h"

namespace gpucoll::proto {

// One side's view of a message. peer: the rank that sends.
struct Message {
  uint64_t bytes;  // of all its parts, in all channels
  int32_t peer;
};

GC_DEV WordPair* note_of(uint8_t* receive_block, uint64_t first_step) {
  static_assert(sizeof(Note) == sizeof(WordPair));
  Note* const notes = reinterpret_cast<StepNotes*>(receive_block + ReceiveBlock::kNotesOffset)->note;
  return reinterpret_cast<WordPair*>(notes + first_step % kSteps);
}

// REQUIRES: there is room for the message's first step, so that the note's last reader has read it.
GC_DEV void post_note(uint8_t* receive_block, uint64_t first_step, uint64_t bytes) {
  const uint64_t news = uint64_t{flag_of(first_step)} << 32;
  store_relaxed_pair(note_of(receive_block, first_step), {news | (bytes & 0xffffffff), news | bytes >> 32});
}

// Returns whether the message's note is there, and reads its length.
GC_DEV bool find_note(uint8_t* receive_block, uint64_t first_step, uint64_t& bytes) {
  const WordPair words = load_relaxed_pair(note_of(receive_block, first_step));
  const uint32_t flag = flag_of(first_step);
  bytes = (words.first & 0xffffffff) | words.second << 32;
  return words.first >> 32 == flag && words.second >> 32 == flag;
}

// Reports a mismatch by device-scope atomics on host memory: one device claims a latch, blocks of other devices have
// latches of their own.
GC_DEV void report_sizes(FaultLatch* latch, const Message& expected, uint64_t sent_bytes, uint32_t kind = kFaultSizes) {
  if (fetch_add_acq_rel(&latch->claimed, uint32_t{1}) != 0) return;  // the first one tells
  store_relaxed(&latch->peer, expected.peer);
  store_relaxed(&latch->sent_bytes, sent_bytes);
  store_relaxed(&latch->expected_bytes, expected.bytes);
  store_release(&latch->kind, kind);  // for the host, which acquires it
  store_release(&latch->abort, uint32_t{1});
}

// Returns false, and reports it, where the message's note is there and says another length.
GC_DEV bool sizes_agree(FaultLatch* latch, uint8_t* receive_block, uint64_t first_step, const Message& expected) {
  uint64_t sent_bytes;
  if (!find_note(receive_block, first_step, sent_bytes) || sent_bytes == expected.bytes) return true;
  report_sizes(latch, expected, sent_bytes);
  return false;
}

}  // namespace gpucoll::proto
