# Room core/comm: communicator, group, shared resources, reclaim.
GC_CORE_SOURCES += \
	src/core/comm/background.cpp \
	src/core/comm/background.h \
	src/core/comm/closing.cpp \
	src/core/comm/closing.h \
	src/core/comm/comm_share.cpp \
	src/core/comm/comm_share.h \
	src/core/comm/communicator.cpp \
	src/core/comm/communicator.h \
	src/core/comm/communicator_close.cpp \
	src/core/comm/communicator_connect.cpp \
	src/core/comm/communicator_watch.cpp \
	src/core/comm/connections.cpp \
	src/core/comm/connections.h \
	src/core/comm/end_notices.cpp \
	src/core/comm/end_notices.h \
	src/core/comm/group.cpp \
	src/core/comm/group.h \
	src/core/comm/handed_ids.cpp \
	src/core/comm/handed_ids.h \
	src/core/comm/recent_table.h \
	src/core/comm/reclaim.cpp \
	src/core/comm/reclaim.h \
	src/core/comm/stall_watch.cpp \
	src/core/comm/stall_watch.h
