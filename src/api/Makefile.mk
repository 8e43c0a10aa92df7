# Room api: the C API (gpucoll.h).
GC_API_SOURCES = \
	src/api/api.cpp \
	src/api/api_comm.cpp \
	src/api/api_device.cpp \
	src/api/api_exchanges.cpp \
	src/api/api_meeting.cpp \
	src/api/api_operations.cpp \
	src/api/api_register.cpp \
	src/api/configuration.cpp \
	src/api/configuration.h \
	src/api/exchange.cpp \
	src/api/exchange.h \
	src/api/handles.cpp \
	src/api/handles.h \
	src/api/kept_operations.cpp \
	src/api/kept_operations.h \
	src/api/open_device.h \
	src/api/registrations.cpp \
	src/api/registrations.h

noinst_LTLIBRARIES += src/api/libapi.la
src_api_libapi_la_SOURCES = $(GC_API_SOURCES)
