# Room core/memory: registration, user buffers that peers have opened.
GC_CORE_SOURCES += \
	src/core/memory/registration.cpp \
	src/core/memory/registration.h \
	src/core/memory/user_buffers.cpp \
	src/core/memory/user_buffers.h
