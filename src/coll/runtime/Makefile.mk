# Room coll/runtime: one MPI communicator's runtime communicator.
GC_COLL_SOURCES += \
	src/coll/runtime/mpi_runtime.cpp \
	src/coll/runtime/mpi_runtime.h
