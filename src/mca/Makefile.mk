# The component that Open MPI loads: thin C files, the only ones that include Open MPI's internal headers.
GC_COLL_COMPONENT_SOURCES = \
	src/mca/component.c \
	src/mca/stub/ompi/mpi/fortran/base/fint_2_int.h \
	src/mca/stub/ompi/peruse/peruse.h \
	src/mca/stub/opal/mca/threads/pthreads/threads_pthreads_mutex.h \
	src/mca/stub/opal/mca/threads/pthreads/threads_pthreads_threads.h
include src/mca/coll/Makefile.mk
include src/mca/common/Makefile.mk
include src/mca/io/Makefile.mk
include src/mca/osc/Makefile.mk
include src/mca/pt2pt/Makefile.mk

ompiplugindir = $(OMPI_PLUGIN_DIR)
ompiplugin_LTLIBRARIES = mca_coll_gpucoll.la
mca_coll_gpucoll_la_SOURCES = $(GC_COLL_COMPONENT_SOURCES)
mca_coll_gpucoll_la_CPPFLAGS = $(AM_CPPFLAGS) $(OMPI_CPPFLAGS)
mca_coll_gpucoll_la_LIBADD = libgpucoll.la $(MPI_LIBS)
# Only the component's structure is seen from outside; nodelete: Open MPI closes components while their threads live.
mca_coll_gpucoll_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -Wl,-z,nodelete \
	-Wl,--version-script=$(srcdir)/src/mca/component.map
EXTRA_mca_coll_gpucoll_la_DEPENDENCIES = src/mca/component.map
EXTRA_DIST += src/mca/component.map
