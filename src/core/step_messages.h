// Messages by copy engine that are parts of something larger, which goes on in steps (copy_reductions.h). Plain data.
//
// A stream makes ready what belongs to step 0, then for each step s: waits for what it needs, launches what the step
// has, makes ready what belongs to step s + 1; in the end it waits for all.
#pragma once
#include <cstdint>
#include <vector>

namespace gpucoll::core {

inline constexpr uint32_t kAtEnd = UINT32_MAX;

struct StepMessage {
  int peer;
  void* buffer;  // kernel address
  uint64_t bytes;
  uint32_t ready;   // its buffer may be used before this step's waits
  uint32_t needed;  // it must be done before this step's launch
};

// REQUIRES: in the order of `ready`; the k-th to a peer is the k-th from this rank there.
struct StepMessages {
  std::vector<StepMessage> sends, recvs;
  bool empty() const { return sends.empty() && recvs.empty(); }
};

}  // namespace gpucoll::core
