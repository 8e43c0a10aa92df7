/* Stands in for a header that Open MPI's devel packages leave out though some pml headers include it. Searched after
 * the real headers. Nothing of it is used here. */
#ifndef GPUCOLL_STUB_PERUSE_H
#define GPUCOLL_STUB_PERUSE_H
#endif
