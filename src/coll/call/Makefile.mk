# Room coll/call: an MPI call becomes tasks of this device.
GC_COLL_SOURCES += \
	src/coll/call/call_moves.cpp \
	src/coll/call/call_moves.h \
	src/coll/call/call_operands.cpp \
	src/coll/call/call_operands.h \
	src/coll/call/call_reductions.cpp \
	src/coll/call/call_reductions.h \
	src/coll/call/mpi_call.cpp \
	src/coll/call/mpi_call.h
