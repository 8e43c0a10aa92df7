// From how many bytes on operations take other ways than the usual ones: copy engines, or all ranks' buffers. Pure
// functions of facts that are equal on all ranks.
#pragma once
#include <cstdint>

#include "gpu/device.h"

namespace gpucoll::core {

struct TuningTable;  // tuning_file.h

// 0: never.
struct CopyLimits {
  uint64_t messages = 0;    // of a message between two ranks
  uint64_t exchanges = 0;   // of a message that is one of all ranks with all others
  uint64_t reductions = 0;  // of the buffer that is reduced
  uint64_t piece = 0;       // the largest pieces of a reduction, as they are wanted
};

// By the parameters, or by what was measured (null: nothing was), or by the defaults of a kind of device, which differ
// for two ranks and for more.
CopyLimits copy_limits(const gpu::Device::Defaults& defaults, int n_ranks, const TuningTable* measured);
// Of a buffer that is reduced straight from and into all ranks' memory, where there is a mesh; 0: never.
uint64_t least_zero_copy(const gpu::Device::Defaults& defaults, int n_ranks, const TuningTable* measured);

}  // namespace gpucoll::core
