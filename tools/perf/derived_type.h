// The MPI type of a shape.
//
// Thread safety: as MPI allows. Ownership: a DerivedType frees its MPI type.
#pragma once
#include <mpi.h>

#include "perf/type_shape.h"

namespace gpucoll::perf {

class DerivedType {
 public:
  // Made by the function of MPI that the shape is named after (face: MPI_Type_create_subarray), and committed.
  DerivedType(const TypeShape& shape, MPI_Datatype element);
  ~DerivedType() { MPI_Type_free(&type_); }
  DerivedType(const DerivedType&) = delete;
  DerivedType& operator=(const DerivedType&) = delete;
  MPI_Datatype get() const { return type_; }

 private:
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

}  // namespace gpucoll::perf
