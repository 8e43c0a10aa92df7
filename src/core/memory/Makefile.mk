# Room core/memory: registration, user buffers that peers have opened, memory for operations.
GC_CORE_SOURCES += \
	src/core/memory/aside.cpp \
	src/core/memory/aside.h \
	src/core/memory/registration.cpp \
	src/core/memory/registration.h \
	src/core/memory/user_buffers.cpp \
	src/core/memory/user_buffers.h \
	src/core/memory/workspace.cpp \
	src/core/memory/workspace.h
