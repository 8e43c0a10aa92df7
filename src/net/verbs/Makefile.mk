# Room net/verbs: RDMA between nodes. Without verbs' headers only absent.cpp is built.
GC_VERBS_SOURCES = \
	src/net/verbs/device.cpp \
	src/net/verbs/device.h \
	src/net/verbs/devices.cpp \
	src/net/verbs/devices.h \
	src/net/verbs/end.cpp \
	src/net/verbs/end.h \
	src/net/verbs/library.cpp \
	src/net/verbs/library.h \
	src/net/verbs/queue_pair.cpp \
	src/net/verbs/queue_pair.h \
	src/net/verbs/rail.h \
	src/net/verbs/receiver.cpp \
	src/net/verbs/receiver.h \
	src/net/verbs/sender.cpp \
	src/net/verbs/sender.h \
	src/net/verbs/verbs.cpp
if HAVE_VERBS
GC_NET_SOURCES += $(GC_VERBS_SOURCES)
else
GC_NET_SOURCES += src/net/verbs/absent.cpp
endif
EXTRA_DIST += $(GC_VERBS_SOURCES) src/net/verbs/absent.cpp
