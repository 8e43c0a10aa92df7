// Makes a call's line for the arrival board, and checks whether the ranks' lines can be one collective.
//
// Thread safety: pure functions.
#pragma once
#include <cstring>
#include <vector>

#include "abi/abi.h"
#include "base/status.h"
#include "gpu/device.h"

namespace gpucoll::coll {

// A rank's input of a reduction.
inline const gc_buffer& input_of(const gc_call& call) { return call.send.given ? call.send : call.recv; }

// The board's line, all but `arrival`.
gc_board_line line_of(const gc_call& call, int rank, int n_ranks, const gpu::Device& device);
// Returns whether two lines of one rank say the same of the call and of its device: they differ in which call it is
// alone.
inline bool are_alike(const gc_board_line& a, const gc_board_line& b) {
  return a.count == b.count && a.type == b.type && a.op == b.op && a.root == b.root && a.digest == b.digest &&
         a.flags == b.flags && !std::memcmp(a.device, b.device, sizeof a.device);
}
// Returns ok where all ranks call `function` alike; else the sentence says what this rank and another one call on
// `communicator`. Errors, equal on all ranks: truncated, where they differ in lengths alone and some rank has less room
// than comes to it; else invalid_usage.
Status check_same_call(uint32_t function, const std::vector<gc_board_line>& lines, int rank, const char* communicator);

}  // namespace gpucoll::coll
