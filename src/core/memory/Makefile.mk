# Room core/memory: registration, user buffers that peers have opened.
GC_CORE_SOURCES += \
	src/core/memory/direct_path.cpp \
	src/core/memory/direct_path.h \
	src/core/memory/registration.cpp \
	src/core/memory/registration.h
