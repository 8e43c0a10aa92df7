// Names one collective of a communicator.
//
// Thread safety: plain data.
#pragma once
#include <cstdint>

#include "abi/abi.h"

namespace gpucoll::coll {

struct CallId {
  uint32_t order;     // GC_ORDER_*
  uint64_t number;    // 1, 2, ...
  uint32_t function;  // GC_FUNCTION_*
  // How many nonblocking calls this rank has begun before this one, if it blocks; kNoCount: not known.
  uint64_t begun_before = kNoCount;
  static constexpr uint64_t kNoCount = ~uint64_t{0};
};
// Stands for a start of a persistent collective, which has the number of its making. Used as a place only in messages.
inline constexpr uint32_t kStarts = GC_ORDERS;
// "MPI_Allgather", "MPI_Iallgather", "MPI_Allgather_init", "a start of MPI_Allgather_init"
const char* name_of(const CallId& place);
const char* function_name(uint32_t function);  // "MPI_Allgather"

}  // namespace gpucoll::coll
