// gpucoll-info --explain: which algorithm and protocol an operation would take, with the predicted times of all.
//
// Works without devices and without other ranks. Thread safety: none; reads the parameters.
#pragma once
#include <cstdint>
#include <string>

#include "base/status.h"

namespace gpucoll::info {

struct Question {
  std::string function;
  uint64_t bytes;  // of one rank's part in allgather and reduce_scatter, of a message in sendrecv
  int n_ranks;
  bool emulated;
};

// Several lines. Errors: invalid_argument; those of the tuning file.
Result<std::string> explain(const Question& question);

}  // namespace gpucoll::info
