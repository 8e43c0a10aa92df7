# Room coll/request: nonblocking and persistent collectives.
GC_COLL_SOURCES += \
	src/coll/request/line_window.cpp \
	src/coll/request/line_window.h \
	src/coll/request/persistent_requests.cpp \
	src/coll/request/persistent_requests.h \
	src/coll/request/persistent_schedule.cpp \
	src/coll/request/persistent_schedule.h \
	src/coll/request/request.cpp \
	src/coll/request/request.h \
	src/coll/request/request_driver.cpp \
	src/coll/request/request_driver.h \
	src/coll/request/request_launcher.cpp \
	src/coll/request/request_launcher.h \
	src/coll/request/request_order.cpp \
	src/coll/request/request_order.h \
	src/coll/request/request_pool.h \
	src/coll/request/request_queue.cpp \
	src/coll/request/request_queue.h \
	src/coll/request/request_sequence.cpp \
	src/coll/request/request_sequence.h
