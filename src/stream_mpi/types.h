// MPI's types and operations as those of the C API.
//
// Thread safety: any thread. What is found out about a derived type is kept as its attribute.
#pragma once
#include <mpi.h>

#include <cstddef>

#include "base/status.h"
#include "gpucoll/gpucoll.h"

namespace gpucoll::stream_mpi {

// Elements of the C API, one after another in memory.
struct Elements {
  gpucollDataType_t type;
  size_t count;
  size_t bytes() const { return count * gpucollTypeSize(type); }
};

// Return what `count` elements of an MPI type are, to be moved or to be reduced. Errors: invalid_argument with the name
// of the count where that is negative or larger than any memory; and for types with gaps, or whose elements are not in
// the order of memory, or which have no operations.
Result<Elements> moved(const char* count_name, MPI_Count count, MPI_Datatype type);
Result<Elements> reduced(const char* count_name, MPI_Count count, MPI_Datatype type);

// Errors: invalid_argument for what is none of MPI's predefined operations, or has no meaning here.
Result<gpucollRedOp_t> operation(MPI_Op op);

}  // namespace gpucoll::stream_mpi
