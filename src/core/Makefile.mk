# Room core: communicator, channels, planner, arrival board, fault latch.
noinst_LTLIBRARIES += src/core/libcore.la
src_core_libcore_la_SOURCES = \
	src/core/abi.h

GC_CORE_LIBS = src/core/libcore.la src/topo/libtopo.la src/net/libnet.la src/gpu/libgpu.la src/base/libbase.la \
	$(HWLOC_LIBS) $(CUDA_LIBS)
