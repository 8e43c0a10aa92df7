# The component that Open MPI loads: thin C files, the only ones that include Open MPI's internal headers.
GC_COLL_SKIN_SOURCES = \
	src/coll/mca/arguments.h \
	src/coll/mca/blocking.c \
	src/coll/mca/bootstrap.c \
	src/coll/mca/collectives.def \
	src/coll/mca/compat.h \
	src/coll/mca/component.c \
	src/coll/mca/engine.c \
	src/coll/mca/engine.h \
	src/coll/mca/group_reductions.c \
	src/coll/mca/groups.c \
	src/coll/mca/kept_objects.c \
	src/coll/mca/kept_objects.h \
	src/coll/mca/kinds.c \
	src/coll/mca/lifetime.c \
	src/coll/mca/module.c \
	src/coll/mca/module.h \
	src/coll/mca/neighbors.c \
	src/coll/mca/nonblocking.c \
	src/coll/mca/parameters.c \
	src/coll/mca/persistent.c \
	src/coll/mca/plan.h \
	src/coll/mca/pt2pt.c \
	src/coll/mca/requests.c \
	src/coll/mca/requests.h \
	src/coll/mca/selection.c \
	src/coll/mca/staging.c \
	src/coll/mca/staging.h \
	src/coll/mca/stub/opal/mca/threads/pthreads/threads_pthreads_mutex.h \
	src/coll/mca/stub/opal/mca/threads/pthreads/threads_pthreads_threads.h \
	src/coll/mca/stub/ompi/mpi/fortran/base/fint_2_int.h \
	src/coll/mca/stub/ompi/peruse/peruse.h \
	src/coll/mca/type_map.c \
	src/coll/mca/types.c

ompiplugindir = $(OMPI_PLUGIN_DIR)
ompiplugin_LTLIBRARIES = mca_coll_gpucoll.la
mca_coll_gpucoll_la_SOURCES = $(GC_COLL_SKIN_SOURCES)
mca_coll_gpucoll_la_CPPFLAGS = $(AM_CPPFLAGS) $(OMPI_CPPFLAGS)
mca_coll_gpucoll_la_LIBADD = libgpucoll.la $(MPI_LIBS)
# Only the component's structure is seen from outside; nodelete: Open MPI closes components while their threads live.
mca_coll_gpucoll_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -Wl,-z,nodelete \
	-Wl,--version-script=$(srcdir)/src/coll/mca/component.map
EXTRA_mca_coll_gpucoll_la_DEPENDENCIES = src/coll/mca/component.map
EXTRA_DIST += src/coll/mca/component.map
