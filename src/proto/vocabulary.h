// The operations that all protocols have, said once: each is a run of the protocol's primitives with some switches.
// primitives.h says what each does. Direct forms differ between protocols, and are with their primitives.
//
// Thread safety and ownership: as the primitives'.
#pragma once
#include "proto/messages.h"
#include "proto/platform.h"

namespace gpucoll::proto {

struct Switches {
  enum Switch : unsigned {
    kRecv = 1,
    kSend = 2,
    kFromInput = 4,
    kFromOutput = 8,
    kToOutput = 16,
    kComplete = 32,  // the result has every rank's contribution
    kMessage = 64,   // with a note, until that is posted or read
    kSendDirect = 128,
    kRecvDirect = 256,
    kKeepReceived = 512  // the output gets what came, before it is reduced
  };
};

// REQUIRES: Self has run(switches, in, out, n) and run_message(switches, in, out, n, message), and is a friend.
template <class Self>
class Vocabulary {
  using S = Switches;

 public:
  GC_DEV void send(uint64_t in, uint64_t n) { self().run(S::kSend | S::kFromInput, in, 0, n); }
  GC_DEV void send_from_output(uint64_t out, uint64_t n) { self().run(S::kSend | S::kFromOutput, 0, out, n); }
  GC_DEV void recv(uint64_t out, uint64_t n) { self().run(S::kRecv | S::kToOutput, 0, out, n); }
  GC_DEV void copy_send(uint64_t in, uint64_t out, uint64_t n) {
    self().run(S::kSend | S::kFromInput | S::kToOutput, in, out, n);
  }
  GC_DEV void recv_copy_send(uint64_t out, uint64_t n) { self().run(S::kRecv | S::kSend | S::kToOutput, 0, out, n); }
  GC_DEV void recv_reduce_copy(uint64_t in, uint64_t out, uint64_t n) {
    self().run(S::kRecv | S::kFromInput | S::kToOutput | S::kComplete, in, out, n);
  }
  GC_DEV void recv_reduce_send(uint64_t in, uint64_t n) { self().run(S::kRecv | S::kSend | S::kFromInput, in, 0, n); }
  GC_DEV void recv_reduce_copy_send(uint64_t in, uint64_t out, uint64_t n) {
    self().run(S::kRecv | S::kSend | S::kFromInput | S::kToOutput | S::kComplete, in, out, n);
  }
  // REQUIRES: one peer to receive from.
  GC_DEV void recv_copy_reduce_send(uint64_t in, uint64_t out, uint64_t n) {
    self().run(S::kRecv | S::kSend | S::kFromInput | S::kKeepReceived, in, out, n);
  }
  // Moves one message, or its part in this channel, which may be empty: total_bytes is that of all parts. The receiver
  // tells of a sender (the rank `peer`) that sends more or less.
  GC_DEV void send_message(uint64_t in, uint64_t n, uint64_t total_bytes) {
    self().run_message(S::kSend | S::kFromInput, in, 0, n, {total_bytes, -1});
  }
  GC_DEV void recv_message(uint64_t out, uint64_t n, uint64_t total_bytes, int32_t peer = -1) {
    self().run_message(S::kRecv | S::kToOutput, 0, out, n, {total_bytes, peer});
  }

 private:
  GC_DEV Self& self() { return static_cast<Self&>(*this); }
};

}  // namespace gpucoll::proto
