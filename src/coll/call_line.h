// What a call says on the arrival board, and whether what two ranks say can be one collective.
//
// Thread safety: pure functions.
#pragma once
#include <string>

#include "core/abi.h"
#include "gpu/device.h"

namespace gpucoll::coll {

// A rank's input of a reduction.
inline const gc_buffer& input_of(const gc_call& call) { return call.send.given ? call.send : call.recv; }

// The board's line, all but `arrival`.
gc_board_line line_of(const gc_call& call, int rank, int n_ranks, const gpu::Device& device);
bool same_call(const gc_board_line& a, const gc_board_line& b);
// "4 x int32, sum", "16 bytes, root 2"
std::string describe_line(const gc_board_line& line);

}  // namespace gpucoll::coll
