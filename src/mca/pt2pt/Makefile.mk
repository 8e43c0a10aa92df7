# Room mca/pt2pt of the component.
GC_COLL_COMPONENT_SOURCES += \
	src/mca/pt2pt/device_messages.c \
	src/mca/pt2pt/exchanges.c \
	src/mca/pt2pt/exchanges.h \
	src/mca/pt2pt/host_messages.c \
	src/mca/pt2pt/host_receives.c \
	src/mca/pt2pt/interpose.c \
	src/mca/pt2pt/message_data.c \
	src/mca/pt2pt/message_data.h \
	src/mca/pt2pt/message_progress.c \
	src/mca/pt2pt/message_receives.c \
	src/mca/pt2pt/message_requests.c \
	src/mca/pt2pt/message_requests.h \
	src/mca/pt2pt/message_sends.c \
	src/mca/pt2pt/message_steps.h \
	src/mca/pt2pt/message_traces.c \
	src/mca/pt2pt/message_traces.h \
	src/mca/pt2pt/mpi_functions.c \
	src/mca/pt2pt/notes.c \
	src/mca/pt2pt/notes.h \
	src/mca/pt2pt/pieces.c \
	src/mca/pt2pt/pieces.h \
	src/mca/pt2pt/pt2pt.h \
	src/mca/pt2pt/staged_receives.c \
	src/mca/pt2pt/staged_receives.h
