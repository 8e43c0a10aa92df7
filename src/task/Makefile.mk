# Room task: checked arguments become tasks; types, operations.
GC_TASK_SOURCES = \
	src/task/buffer_check.cpp \
	src/task/buffer_check.h \
	src/task/collective_task.cpp \
	src/task/collective_task.h \
	src/task/reduction_op.cpp \
	src/task/reduction_op.h \
	src/task/types.cpp \
	src/task/types.h

noinst_LTLIBRARIES += src/task/libtask.la
src_task_libtask_la_SOURCES = $(GC_TASK_SOURCES)
