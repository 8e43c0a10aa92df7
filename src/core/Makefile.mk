# Room core: the runtime: communicators, connections, plans, launches.
GC_CORE_SOURCES =
include src/core/comm/Makefile.mk
include src/core/connect/Makefile.mk
include src/core/copy_engine/Makefile.mk
include src/core/launch/Makefile.mk
include src/core/memory/Makefile.mk
include src/core/peer/Makefile.mk
include src/core/plan/Makefile.mk
include src/core/progress/Makefile.mk

noinst_LTLIBRARIES += src/core/libcore.la
src_core_libcore_la_SOURCES = $(GC_CORE_SOURCES)

GC_CORE_LIBS = src/core/libcore.la src/net/libnet.la src/topo/libtopo.la src/gpu/libgpu.la src/base/libbase.la \
	$(HWLOC_LIBS) $(CUDA_LIBS)
