# Room core/copy_engine: messages and reductions by copy engines.
GC_CORE_SOURCES += \
	src/core/copy_engine/copy_path.cpp \
	src/core/copy_engine/copy_path.h \
	src/core/copy_engine/copy_path_proxy.cpp \
	src/core/copy_engine/copy_turns.h \
	src/core/copy_engine/landing_path.cpp \
	src/core/copy_engine/landing_path.h
