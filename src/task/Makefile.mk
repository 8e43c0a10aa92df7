# Room task: checked arguments become tasks; types, operations.
GC_TASK_SOURCES = \
	src/task/buffers.cpp \
	src/task/buffers.h \
	src/task/collectives.cpp \
	src/task/collectives.h \
	src/task/red_op.cpp \
	src/task/red_op.h \
	src/task/types.cpp \
	src/task/types.h

noinst_LTLIBRARIES += src/task/libtask.la
src_task_libtask_la_SOURCES = $(GC_TASK_SOURCES)
