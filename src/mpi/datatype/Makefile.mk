# Room mpi/datatype: layouts of MPI datatypes and of blocks.
GC_MPI_SOURCES += \
	src/mpi/datatype/address.h \
	src/mpi/datatype/call_blocks.h \
	src/mpi/datatype/type_layout.cpp \
	src/mpi/datatype/type_layout.h \
	src/mpi/datatype/type_layouts.cpp \
	src/mpi/datatype/type_layouts.h
