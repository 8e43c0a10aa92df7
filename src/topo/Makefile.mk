# Room topo: what the node looks like.
noinst_LTLIBRARIES += src/topo/libtopo.la
GC_TOPO_SOURCES = \
	src/topo/link.h \
	src/topo/node.cpp \
	src/topo/node.h \
	src/topo/nvml.cpp \
	src/topo/nvml.h \
	src/topo/pci.cpp \
	src/topo/pci.h \
	src/topo/topology.cpp \
	src/topo/topology.h
src_topo_libtopo_la_SOURCES = $(GC_TOPO_SOURCES)

GC_TOPO_LIBS = src/topo/libtopo.la $(GC_BASE_LIBS) $(HWLOC_LIBS)
