// MPI's types and operations as those of the C API.
//
// Thread safety: any thread. What is found out about a derived type is kept as its attribute.
#pragma once
#include <mpi.h>

#include <cstddef>

#include "base/status.h"
#include "gpucoll/gpucoll.h"

namespace gpucoll::stream_mpi {

// Says for what MPI's operations take elements: bits have only bitwise ones, truth values only logical ones.
enum class Meaning { number, bits, truth };

// Elements of the C API, one after another in memory.
struct Elements {
  gpucollDataType_t type;
  size_t count;
  Meaning meaning = Meaning::number;
  size_t bytes() const { return count * gpucollTypeSize(type); }
};

// Returns how many bytes `count` elements of an MPI type are. All data are moved as bytes: MPI's ranks need equal
// signatures only, but the C API's equal types and counts. Errors: invalid_argument with the name of the count where
// that is negative or larger than any memory; and for types with gaps, or whose elements are not in the order of
// memory.
Result<size_t> moved(const char* count_name, MPI_Count count, MPI_Datatype type);
// Returns what `count` elements of an MPI type are, to be reduced. Errors: as moved(); and for what has no operations.
Result<Elements> reduced(const char* count_name, MPI_Count count, MPI_Datatype type);

// Returns the operation of the C API. Errors: invalid_argument for what is none of MPI's predefined operations, has no
// meaning here, or none for such elements.
Result<gpucollRedOp_t> operation(MPI_Op op, const Elements& of);

}  // namespace gpucoll::stream_mpi
