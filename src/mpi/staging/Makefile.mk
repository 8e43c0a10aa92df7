# Room mpi/staging: packing and the ways between host, page-locked and device memory.
GC_MPI_SOURCES += \
	src/mpi/staging/buffer_memory.cpp \
	src/mpi/staging/buffer_memory.h \
	src/mpi/staging/call_context.h \
	src/mpi/staging/copy_queue.cpp \
	src/mpi/staging/copy_queue.h \
	src/mpi/staging/local_launch.cpp \
	src/mpi/staging/local_launch.h \
	src/mpi/staging/packed_copy.cpp \
	src/mpi/staging/packed_copy.h \
	src/mpi/staging/packing.cpp \
	src/mpi/staging/packing.h \
	src/mpi/staging/pinned_copies.cpp \
	src/mpi/staging/pinned_copies.h \
	src/mpi/staging/pinned_pool.cpp \
	src/mpi/staging/pinned_pool.h \
	src/mpi/staging/pipelined_copy.cpp \
	src/mpi/staging/pipelined_copy.h \
	src/mpi/staging/program_memory.cpp \
	src/mpi/staging/program_memory.h \
	src/mpi/staging/scratch.cpp \
	src/mpi/staging/scratch.h \
	src/mpi/staging/strided_copy.cpp \
	src/mpi/staging/strided_copy.h
