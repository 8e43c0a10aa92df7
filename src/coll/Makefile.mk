# Room coll: MPI's collectives: what the component calls, and blocking collectives.
GC_COLL_SOURCES = \
	src/coll/abi.cpp \
	src/coll/mpi_communicator.cpp \
	src/coll/mpi_communicator.h \
	src/coll/reduce_local.cpp \
	src/coll/reduce_local.h \
	src/coll/traced_calls.cpp \
	src/coll/traced_calls.h \
	src/coll/traced_messages.cpp \
	src/coll/traced_messages.h
include src/coll/call/Makefile.mk
include src/coll/match/Makefile.mk
include src/coll/request/Makefile.mk
include src/coll/runtime/Makefile.mk
include src/coll/shared_gpu/Makefile.mk

noinst_LTLIBRARIES += src/coll/libcoll.la
src_coll_libcoll_la_SOURCES = $(GC_COLL_SOURCES)
src_coll_libcoll_la_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)

GC_COLL_LIBS = src/api/libapi.la src/coll/libcoll.la src/pt2pt/libpt2pt.la src/mpi/libmpi.la src/task/libtask.la src/kernels/libkernels.la \
	$(GC_CORE_LIBS)

# libgpucoll.so: all rooms in one, exporting the C API and the component's table of functions.
lib_LTLIBRARIES += libgpucoll.la
libgpucoll_la_SOURCES =
nodist_EXTRA_libgpucoll_la_SOURCES = force_cxx_linker.cpp
libgpucoll_la_LIBADD = $(GC_COLL_LIBS)
EXTRA_libgpucoll_la_DEPENDENCIES = src/libgpucoll.map
# nodelete: threads and the driver may still use it when Open MPI unloads the component. The version script keeps
# back what -fvisibility=hidden does not: instantiations of std:: templates and the static CUDA runtime.
libgpucoll_la_LDFLAGS = $(AM_LDFLAGS) -version-info $(GC_LIBRARY_VERSION) -Wl,-z,nodelete \
	-Wl,--version-script=$(srcdir)/src/libgpucoll.map
if TSAN_VARIANTS
# Nothing is left to be found at run time. With a sanitizer, its own functions are.
libgpucoll_la_LDFLAGS += -no-undefined -Wl,-z,defs
endif
EXTRA_DIST += src/libgpucoll.map
