# Room core/progress: proxy thread, watchdog, watch over devices.
GC_CORE_SOURCES += \
	src/core/progress/callers.h \
	src/core/progress/device_watch.cpp \
	src/core/progress/device_watch.h \
	src/core/progress/launch_gate.h \
	src/core/progress/proxy.cpp \
	src/core/progress/proxy.h \
	src/core/progress/quiescence.h \
	src/core/progress/watchdog.cpp \
	src/core/progress/watchdog.h
