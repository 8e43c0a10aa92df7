// Says from how many bytes on operations take other ways than the usual ones: copy engines, or the buffers of all
// ranks. Pure functions of facts that are equal on all ranks.
#pragma once
#include <cstdint>

#include "gpu/device.h"

namespace gpucoll::core {

struct TuningTable;  // tuning_file.h

// Least bytes for each way by copy engines; 0: never.
struct CopyEngineLimits {
  uint64_t messages = 0;     // of a message between two ranks
  uint64_t exchanges = 0;    // of a message of an exchange between all ranks: of an alltoall
  uint64_t all_gathers = 0;  // the same of an allgather, which is not an exchange of messages below
  uint64_t reductions = 0;   // of the buffer that is reduced
  uint64_t piece = 0;        // the largest pieces of a reduction: of CommProperties a multiple of 128
  bool operator==(const CopyEngineLimits&) const = default;
};

// Returns the limits that the parameters give, or the measured table (null: nothing was measured), or the defaults of
// the kind of device. These defaults differ for two ranks and for more. stream_ordered: as in CommOptions; then nothing
// but the parameter copy_engine_bytes turns on copies that the host starts, which are all but those of reductions.
CopyEngineLimits copy_engine_limits(const gpu::Device::Defaults& defaults, int n_ranks, const TuningTable* measured,
                                    bool stream_ordered);
// Returns from how many bytes on a buffer is reduced straight from and into all ranks' memory, where there is a mesh;
// 0: never.
uint64_t least_zero_copy(const gpu::Device::Defaults& defaults, int n_ranks, const TuningTable* measured);

}  // namespace gpucoll::core
