# Room core/copy_engine: messages and reductions by copy engines.
GC_CORE_SOURCES += \
	src/core/copy_engine/copy_engines.cpp \
	src/core/copy_engine/copy_engines.h \
	src/core/copy_engine/copy_messages.cpp \
	src/core/copy_engine/copy_messages.h \
	src/core/copy_engine/copy_messages_proxy.cpp \
	src/core/copy_engine/copy_reduction.cpp \
	src/core/copy_engine/copy_reduction.h \
	src/core/copy_engine/send_order.h
