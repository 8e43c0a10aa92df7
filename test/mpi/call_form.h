// A call in one of MPI's three forms, until it is complete.
#pragma once
#include "mpi_test.h"

namespace mpi_test {

inline int finished(int rc, MPI_Request* request) {
  return rc == MPI_SUCCESS ? MPI_Wait(request, MPI_STATUS_IGNORE) : rc;
}
inline int started_and_finished(int rc, MPI_Request* request) {
  if (rc == MPI_SUCCESS) rc = finished(MPI_Start(request), request);
  const int freed = MPI_Request_free(request);
  return rc == MPI_SUCCESS ? freed : rc;
}

}  // namespace mpi_test

// MPI_Name, MPI_Iname or MPI_Name_init on comm; the arguments are those in front of it. Requirements an MPI_Request
// `request`.
#define GC_CALL_IN_FORM(form, comm, Name, name, ...)                            \
  ((form) == mpi_test::Form::blocking ? MPI_##Name(__VA_ARGS__, comm)           \
   : (form) == mpi_test::Form::nonblocking                                      \
       ? mpi_test::finished(MPI_I##name(__VA_ARGS__, comm, &request), &request) \
       : mpi_test::started_and_finished(GC_INIT(Name)(__VA_ARGS__, comm, MPI_INFO_NULL, &request), &request))
