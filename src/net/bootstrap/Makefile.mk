# Room net/bootstrap: sockets and the exchange before connections.
GC_NET_SOURCES += \
	src/net/bootstrap/address.cpp \
	src/net/bootstrap/address.h \
	src/net/bootstrap/bootstrap.h \
	src/net/bootstrap/dialed_connection.cpp \
	src/net/bootstrap/dialed_connection.h \
	src/net/bootstrap/door.cpp \
	src/net/bootstrap/door.h \
	src/net/bootstrap/gathering.cpp \
	src/net/bootstrap/gathering.h \
	src/net/bootstrap/interfaces.cpp \
	src/net/bootstrap/interfaces.h \
	src/net/bootstrap/of_this_process.h \
	src/net/bootstrap/rendezvous.cpp \
	src/net/bootstrap/rendezvous.h \
	src/net/bootstrap/socket.cpp \
	src/net/bootstrap/socket.h \
	src/net/bootstrap/socket_bootstrap.cpp \
	src/net/bootstrap/socket_bootstrap.h \
	src/net/bootstrap/spare.cpp \
	src/net/bootstrap/spare.h
