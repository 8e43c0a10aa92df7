# Room nccl: NCCL's ABI over the C API, as the libnccl.so.2 that programs written for NCCL are linked to. It is apart
# from other libraries, so that nobody finds it who did not ask for it.
ncclabidir = $(libdir)/gpucoll/nccl
ncclabi_LTLIBRARIES = src/nccl/libnccl.la
src_nccl_libnccl_la_SOURCES = \
	src/nccl/config.cpp \
	src/nccl/config.h \
	src/nccl/mapping.cpp \
	src/nccl/mapping.h \
	src/nccl/nccl.cpp \
	src/nccl/nccl_abi.h \
	src/nccl/nccl_comm.cpp \
	src/nccl/nccl_device.cpp \
	src/nccl/nccl_operations.cpp
src_nccl_libnccl_la_LIBADD = libgpucoll.la
EXTRA_src_nccl_libnccl_la_DEPENDENCIES = src/nccl/libnccl.map
# libgpucoll is found from where this library is, also where it is preloaded into a program.
src_nccl_libnccl_la_LDFLAGS = $(AM_LDFLAGS) -version-info 2:0:0 -Wl,-z,nodelete '-Wl,-rpath,$$ORIGIN/../..' \
	-Wl,--version-script=$(srcdir)/src/nccl/libnccl.map
EXTRA_DIST += src/nccl/libnccl.map
dist_bin_SCRIPTS = contrib/with-gpucoll
