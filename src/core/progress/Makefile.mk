# Room core/progress: proxy thread, watchdog.
GC_CORE_SOURCES += \
	src/core/progress/proxy.cpp \
	src/core/progress/proxy.h \
	src/core/progress/quiescence.h \
	src/core/progress/watchdog.cpp \
	src/core/progress/watchdog.h
