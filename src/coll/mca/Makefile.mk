# The component that Open MPI loads: thin C files, the only ones that include Open MPI's internal headers.
GC_COLL_SKIN_SOURCES =

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
