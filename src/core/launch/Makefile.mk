# Room core/launch: launcher, kept launches, work FIFO, graph memory.
GC_CORE_SOURCES += \
	src/core/launch/graph_launches.cpp \
	src/core/launch/graph_launches.h \
	src/core/launch/graph_memory.cpp \
	src/core/launch/graph_memory.h \
	src/core/launch/graph_users.cpp \
	src/core/launch/graph_users.h \
	src/core/launch/host_words.h \
	src/core/launch/launcher.cpp \
	src/core/launch/launcher.h \
	src/core/launch/plan_cache.cpp \
	src/core/launch/plan_cache.h \
	src/core/launch/resident_kernel.cpp \
	src/core/launch/resident_kernel.h \
	src/core/launch/stream_ops.h \
	src/core/launch/work_fifo.cpp \
	src/core/launch/work_fifo.h
