# Room core/comm: communicator, group, shared resources, reclaim.
GC_CORE_SOURCES += \
	src/core/comm/communicator.cpp \
	src/core/comm/communicator.h \
	src/core/comm/communicator_connect.cpp \
	src/core/comm/group.cpp \
	src/core/comm/group.h \
	src/core/comm/retired.cpp \
	src/core/comm/retired.h \
	src/core/comm/tenant.cpp \
	src/core/comm/tenant.h
