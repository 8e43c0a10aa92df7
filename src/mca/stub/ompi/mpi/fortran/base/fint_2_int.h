/* Stands in for a header that Open MPI's devel packages leave out though ompi/op/op.h includes it. Searched after the
 * real headers. op.h uses these two conversions for user-defined Fortran operations; they are the identity where a
 * Fortran INTEGER is a C int, which the assertion holds Open MPI to.
 */
#ifndef GPUCOLL_STUB_FINT_2_INT_H
#define GPUCOLL_STUB_FINT_2_INT_H

_Static_assert(sizeof(MPI_Fint) == sizeof(int), "Open MPI's own fint_2_int.h is needed: use --with-ompi-source");

#define OMPI_FINT_2_INT(value) (value)
#define OMPI_INT_2_FINT(value) (value)

#endif
