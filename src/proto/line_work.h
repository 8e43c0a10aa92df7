// Describes to line_mover.h the ends of connections and the work.
//
// Thread safety: plain data, each thread has its own. Ownership: none.
#pragma once
#include "proto/messages.h"
#include "proto/protocols.h"

namespace gpucoll::proto {

// One end of a connection, as one thread knows it.
struct LineEnd {
  uint8_t* receive;  // the ReceiveBlock
  uint8_t* slots;
  uint64_t* head;
  uint64_t step;  // the next one
  uint64_t seen;  // of a sending end: a lower bound of head
};

// The work: what is to be moved.
struct LineWork {
  const uint8_t* input;  // the own operand
  uint8_t* output;
  uint32_t bytes;
  bool sends, receives;
  bool reads, writes;   // whether there is an input, and whether the result goes to the output
  bool keeps_received;  // what came goes to the output, before it is reduced with the input
  bool own;             // the input is this rank's own operand: `pre` applies
  bool complete;        // `post` applies to the result
  Message message;
};
// The ends of a group's connections.
template <class F>
struct LineEnds {
  LineEnd in[F::kRecv > 0 ? F::kRecv : 1] = {}, out[F::kSend > 0 ? F::kSend : 1] = {};
  int n_in = 0, n_out = 0;
};

// In the first step of a message the first pack says how long all of it is.
inline constexpr uint32_t kLeadBytes = sizeof(Pack);

}  // namespace gpucoll::proto
