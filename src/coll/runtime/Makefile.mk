# Room coll/runtime: one MPI communicator's runtime communicator.
GC_COLL_SOURCES += \
	src/coll/runtime/background_task.h \
	src/coll/runtime/kept_calls.cpp \
	src/coll/runtime/kept_calls.h \
	src/coll/runtime/mpi_runtime.cpp \
	src/coll/runtime/mpi_runtime.h \
	src/coll/runtime/run_counts.h \
	src/coll/runtime/staging.cpp \
	src/coll/runtime/staging.h
