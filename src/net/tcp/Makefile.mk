# Room net/tcp: sockets between nodes.
GC_NET_SOURCES += \
	src/net/tcp/channel.cpp \
	src/net/tcp/channel.h \
	src/net/tcp/endpoint.cpp \
	src/net/tcp/endpoint.h \
	src/net/tcp/step_stream.cpp \
	src/net/tcp/step_stream.h \
	src/net/tcp/tcp.cpp \
	src/net/tcp/tcp_end.cpp \
	src/net/tcp/tcp_end.h \
	src/net/tcp/token.h
