# Room coll/call: an MPI call becomes tasks of this device.
GC_COLL_SOURCES += \
	src/coll/call/call_bytes.h \
	src/coll/call/device_hints.cpp \
	src/coll/call/device_hints.h \
	src/coll/call/device_part.cpp \
	src/coll/call/device_part.h \
	src/coll/call/moves.cpp \
	src/coll/call/moves.h \
	src/coll/call/operands.cpp \
	src/coll/call/operands.h \
	src/coll/call/reductions.cpp \
	src/coll/call/reductions.h
