// The MPI error class of a code of the engine.
#define OMPI_SKIP_MPICXX 1
#pragma once
#include <mpi.h>  // error classes only; nothing here calls MPI

#include "base/status.h"

namespace gpucoll::coll {

inline int mpi_class(Code code) {
  switch (code) {
#define GC_ERROR(name, c_name, value, mpi_class, text) \
  case Code::name:                                     \
    return mpi_class;
#include "base/errors.def"
#undef GC_ERROR
  }
  return MPI_ERR_INTERN;
}

}  // namespace gpucoll::coll
