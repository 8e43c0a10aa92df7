# Room mpi/staging: packing and the ways between host, page-locked and device memory.
GC_MPI_SOURCES += \
	src/mpi/staging/call_context.h \
	src/mpi/staging/call_memory.cpp \
	src/mpi/staging/call_memory.h \
	src/mpi/staging/host_pieces.cpp \
	src/mpi/staging/host_pieces.h \
	src/mpi/staging/local_launch.cpp \
	src/mpi/staging/local_launch.h \
	src/mpi/staging/packed_copy.cpp \
	src/mpi/staging/packed_copy.h \
	src/mpi/staging/packing.cpp \
	src/mpi/staging/packing.h \
	src/mpi/staging/piecewise_copy.cpp \
	src/mpi/staging/piecewise_copy.h \
	src/mpi/staging/scratch.cpp \
	src/mpi/staging/scratch.h \
	src/mpi/staging/staged_runs.cpp \
	src/mpi/staging/staged_runs.h \
	src/mpi/staging/staging_pool.cpp \
	src/mpi/staging/staging_pool.h
