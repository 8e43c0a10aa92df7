# Room net: bootstrap sockets and transports.
GC_NET_SOURCES = \
	src/net/bootstrap.h \
	src/net/door.cpp \
	src/net/door.h \
	src/net/gathering.cpp \
	src/net/gathering.h \
	src/net/of_this_process.h \
	src/net/p2p.cpp \
	src/net/rendezvous.cpp \
	src/net/rendezvous.h \
	src/net/shm.cpp \
	src/net/socket.cpp \
	src/net/socket.h \
	src/net/socket_bootstrap.cpp \
	src/net/socket_bootstrap.h \
	src/net/spare.cpp \
	src/net/spare.h \
	src/net/transport.h

noinst_LTLIBRARIES += src/net/libnet.la
src_net_libnet_la_SOURCES = $(GC_NET_SOURCES)

GC_NET_LIBS = src/net/libnet.la $(GC_GPU_LIBS)
