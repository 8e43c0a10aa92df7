# Room mpi/datatype: layouts of MPI datatypes and of blocks.
GC_MPI_SOURCES += \
	src/mpi/datatype/address.h \
	src/mpi/datatype/call_blocks.h \
	src/mpi/datatype/type_cache.cpp \
	src/mpi/datatype/type_cache.h \
	src/mpi/datatype/type_layout.cpp \
	src/mpi/datatype/type_layout.h
