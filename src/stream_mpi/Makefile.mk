# Room stream_mpi: MPI's calls, ordered by streams (gpucoll/mpi.h), over the C API and MPI's public functions. A library
# of its own, as programs without MPI use libgpucoll, too.
lib_LTLIBRARIES += libgpucoll-mpi.la
libgpucoll_mpi_la_SOURCES = \
	src/stream_mpi/calls.h \
	src/stream_mpi/moves.cpp \
	src/stream_mpi/ranks.cpp \
	src/stream_mpi/ranks.h \
	src/stream_mpi/reductions.cpp \
	src/stream_mpi/types.cpp \
	src/stream_mpi/types.h
libgpucoll_mpi_la_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
# The library takes its own copy of the room base: libgpucoll does not export it.
libgpucoll_mpi_la_LIBADD = libgpucoll.la $(GC_BASE_LIBS) $(MPI_LIBS)
EXTRA_libgpucoll_mpi_la_DEPENDENCIES = src/stream_mpi/libgpucoll-mpi.map
# nodelete: MPI calls it back when communicators are freed.
libgpucoll_mpi_la_LDFLAGS = $(AM_LDFLAGS) -version-info $(GC_LIBRARY_VERSION) -Wl,-z,nodelete \
	-Wl,--version-script=$(srcdir)/src/stream_mpi/libgpucoll-mpi.map
EXTRA_DIST += src/stream_mpi/libgpucoll-mpi.map
