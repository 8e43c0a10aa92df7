# Room net: bootstrap sockets and transports.
GC_NET_SOURCES = \
	src/net/host_blocks.h \
	src/net/mesh_lines.cpp \
	src/net/mesh_lines.h \
	src/net/p2p.cpp \
	src/net/shm.cpp \
	src/net/step_lanes.cpp \
	src/net/step_lanes.h \
	src/net/transport.h
include src/net/bootstrap/Makefile.mk
include src/net/tcp/Makefile.mk
include src/net/verbs/Makefile.mk

noinst_LTLIBRARIES += src/net/libnet.la
src_net_libnet_la_SOURCES = $(GC_NET_SOURCES)

GC_NET_LIBS = src/net/libnet.la $(GC_TOPO_LIBS) $(GC_GPU_LIBS)
